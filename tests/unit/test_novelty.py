"""Which offsets of a batch are new, told from the marks: fresh, for the table to decide, or duplicates."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.contract.marks import Marks
from tidemark.ingest.batch.new_offsets import Bounds, Novelty, novelty_of
from tidemark.sink.ledger import LedgerState

MARKS = st.dictionaries(st.integers(0, 3), st.integers(0, 12)).map(Marks)


def verdicts(novelty: Novelty, partition: int, offset: int) -> list[str]:
    """Every name that fits one offset: there has to be exactly one."""
    undecided = novelty.undecided.get(partition, (0, 0))
    found = []
    if novelty.all_fresh or (partition in novelty.fresh and offset >= novelty.fresh[partition]):
        found.append("fresh")
    if undecided[0] <= offset < undecided[1]:
        found.append("undecided")
    return found or ["duplicate"]


def state(marks: Marks, done: Marks | None = None, ceiling: Marks | None = None) -> LedgerState:
    done = marks if done is None else done
    return LedgerState(1, marks=marks, done=done, ceiling=marks if ceiling is None else ceiling)


@settings(max_examples=300)
@given(MARKS, MARKS, MARKS, MARKS, MARKS)
def test_every_offset_of_a_batch_has_one_verdict_that_the_marks_allow(
    start: Marks, length: Marks, marks: Marks, done: Marks, ceiling: Marks
) -> None:
    end = Marks({p: start.at(p) + n for p, n in length.items()})
    bounds = Bounds(start, end)
    novelty = novelty_of(bounds, state(marks, done, ceiling))
    for p in bounds.partitions:
        highest = max(marks.at(p), ceiling.at(p))
        for offset in range(start.at(p), end[p]):
            (verdict,) = verdicts(novelty, p, offset)
            if offset >= highest:
                assert verdict == "fresh"
            elif offset < min(marks.at(p), done.at(p)):
                assert verdict == "duplicate"
            else:
                assert verdict == "undecided"


@given(MARKS, MARKS, MARKS)
def test_no_table_is_asked_when_a_batch_lies_beyond_marks_and_ceiling(
    start: Marks, length: Marks, below: Marks
) -> None:
    marks = Marks({p: max(0, start.at(p) - below.at(p)) for p in start})
    bounds = Bounds(start, Marks({p: start.at(p) + n for p, n in length.items()}))
    assert novelty_of(bounds, state(marks)).all_fresh


def test_the_table_decides_between_done_and_marks_after_a_crash_before_the_letters() -> None:
    novelty = novelty_of(Bounds(Marks({0: 10}), Marks({0: 40})), state(Marks({0: 30}), Marks({0: 20})))
    assert novelty.undecided == {0: (20, 30)}
    assert novelty.fresh == {0: 30}
    assert verdicts(novelty, 0, 19) == ["duplicate"]


def test_the_table_decides_up_to_the_ceiling_after_a_restore() -> None:
    lowered = state(Marks({0: 10, 1: 5}), Marks({0: 30, 1: 5}), Marks({0: 30, 1: 5}))
    novelty = novelty_of(Bounds(Marks({0: 10, 1: 5}), Marks({0: 20, 1: 9})), lowered)
    assert novelty.undecided == {0: (10, 20)}
    assert novelty.fresh == {0: 30, 1: 5}


def test_partitions_without_records_are_left_out() -> None:
    bounds = Bounds(Marks({0: 10, 1: 5}), Marks({0: 10, 1: 9, 2: 0}))
    assert bounds.partitions == (1,)
    assert novelty_of(bounds, state(Marks({0: 50, 1: 7}), Marks({0: 50, 1: 7}))).fresh == {1: 7}
