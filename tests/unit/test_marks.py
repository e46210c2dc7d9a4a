"""Marks are vectors of offsets; a ledger commit says the same after a trip through the log."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.contract.ledger_commit import METADATA_KEY, CommitKind, LedgerCommit
from tidemark.contract.marks import Marks

OFFSETS = st.integers(0, 2**62)
PARTITIONS = st.integers(0, 5)
MARKS = st.dictionaries(PARTITIONS, OFFSETS).map(Marks)
COMMITS = st.builds(
    LedgerCommit,
    kind=st.sampled_from(CommitKind),
    stream=st.text(min_size=1),
    topic_id=st.text(min_size=1),
    token=st.text(min_size=1),
    seq=OFFSETS,
    base=OFFSETS,
    marks=MARKS,
    published=MARKS,
    high_water=MARKS,
    checkpoint=st.text(),
    counts=st.dictionaries(st.text(), OFFSETS),
    table_id=st.none() | st.text(min_size=1),
    jumped=st.dictionaries(PARTITIONS, st.tuples(OFFSETS, OFFSETS)),
    reason=st.none() | st.text(min_size=1),
)


@given(MARKS, MARKS)
def test_highest_and_lowest_bound_both(one: Marks, other: Marks) -> None:
    highest, lowest = one.highest(other), one.lowest(other)
    assert lowest <= one <= highest
    assert lowest <= other <= highest
    for p in {*one, *other}:
        assert {highest.at(p), lowest.at(p)} == {one.at(p), other.at(p)}
    assert highest == other.highest(one)
    assert lowest == other.lowest(one)


@given(MARKS, MARKS)
def test_marks_reach_others_exactly_when_no_partition_is_behind(one: Marks, other: Marks) -> None:
    assert (one >= other) == (not one.behind(other))
    assert (one <= other) == (other >= one)
    assert all(here < there for here, there in one.behind(other).values())


@given(MARKS)
def test_a_partition_that_is_not_named_stands_at_nothing(marks: Marks) -> None:
    assert marks.at(99) == 0
    assert marks >= Marks()
    assert marks.highest(Marks()) == marks
    assert set(marks.lowest(Marks()).values()) <= {0}


def test_marks_are_equal_and_hash_alike_when_only_the_order_differs() -> None:
    one, other = Marks({1: 5, 0: 3}), Marks({0: 3, 1: 5})
    assert one == other
    assert hash(one) == hash(other)


@given(COMMITS)
def test_a_ledger_commit_says_the_same_when_read_back(ledger_commit: LedgerCommit) -> None:
    assert LedgerCommit.from_json(ledger_commit.to_json()) == ledger_commit


@given(COMMITS)
def test_the_metadata_has_no_key_for_a_value_that_is_absent(ledger_commit: LedgerCommit) -> None:
    body = json.loads(ledger_commit.to_json())[METADATA_KEY]
    assert not [name for name, value in body.items() if value in (None, "", {})]
    assert body["seq"] == ledger_commit.seq


@given(st.none() | st.text() | st.text().map(lambda t: json.dumps({METADATA_KEY: t})))
def test_the_metadata_of_others_is_no_ledger_commit(text: str | None) -> None:
    assert LedgerCommit.from_json(text) is None


@pytest.mark.parametrize("missing", ["kind", "stream", "topic_id", "token", "seq", "base"])
def test_metadata_is_no_ledger_commit_when_something_is_missing(missing: str) -> None:
    ledger_commit = LedgerCommit(CommitKind.BATCH, "orders", "topic", "run/1/1", 1, 1)
    body = json.loads(ledger_commit.to_json())
    del body[METADATA_KEY][missing]
    assert LedgerCommit.from_json(json.dumps(body)) is None


def test_the_run_is_the_first_part_of_the_token() -> None:
    ledger_commit = LedgerCommit(CommitKind.BATCH, "orders", "topic", "run/1/1", 1, 1)
    assert ledger_commit.run == "run"
    assert replace(ledger_commit, token="next/2/1").run == "next"
