from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.config.base import Section
from tidemark.config.reading.shape import keys_of, sections_in
from tidemark.config.reference import reference, sections
from tidemark.config.settings import ConfigurationFile

COMMITTED = Path(__file__).parents[2] / "docs" / "configuration.md"
SECTIONS = list(sections(ConfigurationFile))


def test_the_committed_reference_is_what_the_models_say() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == reference(), "run: python -m tidemark.config.reference"


@pytest.mark.parametrize(("key", "model"), SECTIONS, ids=[key or "top" for key, _ in SECTIONS])
def test_every_key_says_what_it_means_and_who_uses_it(key: str, model: type[Section]) -> None:
    for name, field in keys_of(model).items():
        if sections_in(field.annotation):
            continue
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        assert field.description, f"{key}.{name} has no description"
        assert extra.get("used_by", model.used_by), f"{key}.{name} does not say who uses it"


def test_the_reference_shows_defaults_limits_and_users_of_the_consumers_keys() -> None:
    lines = reference().splitlines()
    assert any(
        line.startswith("| `max-poll-interval-ms` | whole number, ≥ 1 | `300000` | listener |")
        for line in lines
    )
    assert any(
        line.startswith("| `enable-auto-commit` | `true` or `false` | `false` | nobody") for line in lines
    )
