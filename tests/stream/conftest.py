"""Brings the stream under test to this ring; the main job and its modes are tested as they run."""

from __future__ import annotations

import pytest
from tests.stream_under_test import stream

__all__ = ["stream"]

AS_SHIPPED = ("test_main_job", "test_modes", "test_fingerprint_memory")


@pytest.fixture(scope="module", autouse=True)
def _as_shipped(request: pytest.FixtureRequest) -> None:
    """The modules named; how Spark evaluates is not what the others are about."""
    if request.path.stem in AS_SHIPPED:
        request.getfixturevalue("as_shipped")
