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


FOUND: list[tuple[Rule, str, frozenset[Event] | None, int]] = [
    (Rule.COMPARE_AND_SET, "doubled", None, 31),
    (Rule.MARKS_IN_EFFECT, "lost", None, 66),
    (Rule.PUBLISHED_IN_EFFECT, "lost", frozenset({Event.RESTORE, Event.SCHEMA}), 98),
    (Rule.RESTORE_OF_RESTORE, "lost", frozenset({Event.RESTORE}), 103),
    (Rule.CEILING, "doubled", None, 10),
    (Rule.RESUME_AT_DONE, "lost", None, 38),
    (Rule.FRESH_CHECKPOINT, "stuck", frozenset({Event.OUTAGE}), 8),
    (Rule.REOPEN, "dead letter lost", frozenset({Event.REPLAY, Event.RESTORE}), 30),
    (Rule.UNDONE_PASSED_ON, "dead letter lost", frozenset({Event.REPLAY, Event.RESTORE, Event.SCHEMA}), 1394),
    (
        Rule.RESTORED_DURING_REPLAY,
        "dead letter lost",
        frozenset({Event.REPLAY, Event.RESTORE, Event.SCHEMA}),
        948,
    ),
    (Rule.STATUS_SEQUENCE, "dead letter lost", frozenset({Event.REPLAY, Event.RESTORE}), 1394),
    (Rule.REPLAY_BELOW_MARKS, "doubled", None, 319),
    (Rule.REPLAY_BELOW_DONE, "doubled", CALM | {Event.REPLAY, Event.SCHEMA}, 582),
    (Rule.REPLAYS_FENCED, "doubled", frozenset({Event.REPLAY, Event.REWIND, Event.SCHEMA}), 970),
    (Rule.REPLAY_LOOKS_AGAIN, "doubled", frozenset({Event.REPLAY, Event.REWIND, Event.SCHEMA}), 4103),
    (Rule.EMPTIED_DURING_BATCH, "lost", frozenset({Event.EMPTIED}), 27),
    (Rule.EMPTIED_BEHIND_RESTORE, "lost", frozenset({Event.EMPTIED, Event.RESTORE}), 280),
    (Rule.ADOPT_BELOW_ENDS, "doubled", frozenset({Event.FORGOTTEN}), 7),
    (Rule.ADOPT_IN_DOUBT, "lost", frozenset({Event.FORGOTTEN}), 77),
    (Rule.ADOPT_REOPENS, "dead letter lost", frozenset({Event.EMPTIED, Event.REPLAY}), 278),
]
"""What a schedule does without a rule: which events it draws, None for the seed's own, and its seed. Where
the model changes, others do: they are found by `violations` over a long range.
"""


@pytest.mark.parametrize(
    ("rule", "harm", "events", "seed"), FOUND, ids=[rule.name.lower() for rule, *_ in FOUND]
)
def test_a_record_is_lost_or_doubled_when_a_rule_is_switched_off(
    rule: Rule, harm: str, events: frozenset[Event] | None, seed: int
) -> None:
    found = list(violations(ALL_RULES - {rule}, [seed], events))
    assert any(f": {harm}" in v for v in found), (
        f"nothing happens without the rule that {rule.value}: {found}"
    )
    assert list(violations(ALL_RULES, [seed], events)) == []


@pytest.mark.parametrize(
    ("one", "other", "events", "seeds"),
    [
        # Before a batch both look for the same thing.
        (Rule.FENCE, Rule.NO_GAP, None, range(800, 900)),
        # What a replay does not see, the next start does, while somebody passes it on.
        (
            Rule.NOTE_CHECKED,
            Rule.UNDONE_PASSED_ON,
            frozenset({Event.REPLAY, Event.RESTORE, Event.SCHEMA}),
            range(1103, 1203),
        ),
    ],
)
def test_two_rules_hold_what_neither_alone_lets_slip(
    one: Rule, other: Rule, events: frozenset[Event] | None, seeds: range
) -> None:
    assert list(violations(ALL_RULES - {one}, seeds, events)) == []
    assert next(violations(ALL_RULES - {one, other}, seeds, events), None) is not None


def test_every_rule_is_switched_off_by_a_test() -> None:
    assert {rule for rule, *_ in FOUND} | {Rule.NO_GAP, Rule.FENCE, Rule.NOTE_CHECKED} == ALL_RULES
