"""Options of the commands about dead letters."""

from __future__ import annotations

import pytest

from tidemark.cli.dead_letters.options import selection_of


def test_a_misspelt_failure_code_is_said_and_still_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Others write dead letters too, with codes of their own."""
    chosen = selection_of(
        code=["DECIMAL_PRECISON", "OURS", "MALFORMED_JSON"], status=None, since=None, until=None, limit=None
    )
    assert chosen.codes == ("DECIMAL_PRECISON", "OURS", "MALFORMED_JSON")
    assert capsys.readouterr().err.splitlines() == [
        "DECIMAL_PRECISON is none of Tidemark's own failure codes; did you mean DECIMAL_PRECISION?",
        "OURS is none of Tidemark's own failure codes",
    ]
