"""No schedule of what touches a ledger loses or doubles a record; without a rule, one does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from tests.ledger_model import drawn_events, quietly, run_schedule
from tests.ledger_rules import ALL_RULES, Event, Rule

CALM = frozenset({Event.CHECKPOINT_LOSS})


@pytest.fixture(autouse=True)
def _quietly() -> None:
    quietly()


def violations(
    rules: frozenset[Rule], seeds: Iterable[int], events: frozenset[Event] | None = None
) -> Iterator[str]:
    """Without `events` each schedule draws its own."""
    for seed in seeds:
        drawn = drawn_events(seed) if events is None else events
        for violation in run_schedule(seed, events=drawn, rules=rules):
            yield f"seed {seed}: {violation}"


def test_no_record_is_lost_or_doubled_when_everything_happens() -> None:
    assert list(violations(ALL_RULES, range(1500))) == []


@pytest.mark.parametrize("event", list(Event))
def test_no_record_is_lost_or_doubled_when_one_thing_happens(event: Event) -> None:
    assert list(violations(ALL_RULES, range(150), CALM | {event})) == []
