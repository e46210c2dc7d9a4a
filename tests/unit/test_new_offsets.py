"""Which offsets of a batch are new, told from the marks: fresh, for the table to decide, or duplicates."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.contract.marks import Marks
from tidemark.ingest.batch.new_offsets import Bounds, NewOffsets, new_offsets_of
from tidemark.sink.ledger import LedgerState

MARKS = st.dictionaries(st.integers(0, 3), st.integers(0, 12)).map(Marks)


def verdicts(new_offsets: NewOffsets, partition: int, offset: int) -> list[str]:
    """Every name that fits one offset: there has to be exactly one."""
    uncertain = new_offsets.uncertain.get(partition, (0, 0))
    found = []
    if new_offsets.all_fresh or (partition in new_offsets.fresh and offset >= new_offsets.fresh[partition]):
        found.append("fresh")
    if uncertain[0] <= offset < uncertain[1]:
        found.append("undecided")
    return found or ["duplicate"]


def state(marks: Marks, published: Marks | None = None, high_water: Marks | None = None) -> LedgerState:
    published = marks if published is None else published
    return LedgerState(
        1, marks=marks, published=published, high_water=marks if high_water is None else high_water
    )


@settings(max_examples=300)
@given(MARKS, MARKS, MARKS, MARKS, MARKS)
def test_every_offset_of_a_batch_has_one_verdict_that_the_marks_allow(
    start: Marks, length: Marks, marks: Marks, published: Marks, high_water: Marks
) -> None:
    end = Marks({p: start.at(p) + n for p, n in length.items()})
    bounds = Bounds(start, end)
    new_offsets = new_offsets_of(bounds, state(marks, published, high_water))
    for p in bounds.ranges:
        highest = max(marks.at(p), high_water.at(p))
        for offset in range(start.at(p), end[p]):
            (verdict,) = verdicts(new_offsets, p, offset)
            if offset >= highest:
                assert verdict == "fresh"
            elif offset < min(marks.at(p), published.at(p)):
                assert verdict == "duplicate"
            else:
                assert verdict == "undecided"


@given(MARKS, MARKS, MARKS)
def test_no_table_is_asked_when_a_batch_lies_beyond_marks_and_ceiling(
    start: Marks, length: Marks, below: Marks
) -> None:
    marks = Marks({p: max(0, start.at(p) - below.at(p)) for p in start})
    bounds = Bounds(start, Marks({p: start.at(p) + n for p, n in length.items()}))
    assert new_offsets_of(bounds, state(marks)).all_fresh


def test_the_table_decides_between_done_and_marks_when_dead_letters_were_not_sent() -> None:
    new_offsets = new_offsets_of(
        Bounds(Marks({0: 10}), Marks({0: 40})), state(Marks({0: 30}), Marks({0: 20}))
    )
    assert new_offsets.uncertain == {0: (20, 30)}
    assert new_offsets.fresh == {0: 30}
    assert verdicts(new_offsets, 0, 19) == ["duplicate"]


def test_the_table_decides_up_to_the_ceiling_after_a_restore() -> None:
    lowered = state(Marks({0: 10, 1: 5}), Marks({0: 30, 1: 5}), Marks({0: 30, 1: 5}))
    new_offsets = new_offsets_of(Bounds(Marks({0: 10, 1: 5}), Marks({0: 20, 1: 9})), lowered)
    assert new_offsets.uncertain == {0: (10, 20)}
    assert new_offsets.fresh == {0: 30, 1: 5}


def test_partitions_without_records_are_left_out() -> None:
    bounds = Bounds(Marks({0: 10, 1: 5}), Marks({0: 10, 1: 9, 2: 0}))
    assert tuple(bounds.ranges) == (1,)
    assert new_offsets_of(bounds, state(Marks({0: 50, 1: 7}), Marks({0: 50, 1: 7}))).fresh == {1: 7}
