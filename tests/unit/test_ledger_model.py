"""No schedule of writers, RESTOREs and rewinds loses or doubles a record; without a rule, one does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.ledger_model import ALL_EVENTS, Event, run_schedule
from tests.ledger_world import ALL_RULES, Rule

CALM = frozenset({Event.CHECKPOINT_LOSS})


def violations(rules: frozenset[Rule], seeds: range, events: frozenset[Event] = ALL_EVENTS) -> Iterator[str]:
    for seed in seeds:
        for violation in run_schedule(seed, events=events, rules=rules):
            yield f"seed {seed}: {violation}"


def test_no_record_is_lost_or_doubled_when_everything_happens_at_once() -> None:
    assert list(violations(ALL_RULES, range(5000))) == []


@pytest.mark.parametrize("event", list(Event))
def test_no_record_is_lost_or_doubled_when_one_thing_happens(event: Event) -> None:
    assert list(violations(ALL_RULES, range(400), CALM | {event})) == []


@pytest.mark.parametrize(
    ("rule", "harm"),
    [
        (Rule.COMPARE_AND_SET, "doubled"),
        (Rule.MARKS_IN_EFFECT, "lost"),
        (Rule.RESTORE_OF_RESTORE, "lost"),
        (Rule.CEILING, "doubled"),
        (Rule.RESUME_AT_DONE, "dead letter lost"),
        (Rule.REOPEN, "dead letter lost"),
        (Rule.REPLAY_BELOW_MARKS, "doubled"),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Rule) else "",
)
def test_a_record_is_lost_or_doubled_when_a_rule_is_switched_off(rule: Rule, harm: str) -> None:
    first = next((v for v in violations(ALL_RULES - {rule}, range(3000)) if f": {harm}" in v), None)
    assert first is not None, f"nothing happens without the rule that {rule.value}"


def test_the_gap_check_holds_records_that_the_fence_let_slip() -> None:
    # Before a batch both guard against the same thing: either alone is enough, without both records go.
    seeds = range(600)
    assert list(violations(ALL_RULES - {Rule.FENCE}, seeds)) == []
    assert next(violations(ALL_RULES - {Rule.FENCE, Rule.NO_GAP}, seeds), None) is not None


def test_every_rule_is_switched_off_by_a_test() -> None:
    cases = test_a_record_is_lost_or_doubled_when_a_rule_is_switched_off.pytestmark[0].args[1]
    assert {rule for rule, _ in cases} | {Rule.NO_GAP, Rule.FENCE} == ALL_RULES
