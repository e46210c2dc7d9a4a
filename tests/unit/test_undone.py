"""Versions that RESTOREs took back: which they are, and what every commit passes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidemark.config.destination import TableRef
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.contract.undone import Undone, is_undone, with_restore
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.operations.adopt import begun_anew
from tidemark.sink.ledger import LedgerState
from tidemark.source.checkpoint import Position
from tidemark.streams.completed import with_completed
from tidemark.streams.generation import Opening

NEWEST = LedgerCommit(
    CommitKind.BATCH, "s", "t", "run/1/1", 3, 2, checkpoint="kafka-native-1-x", replay_due=3
)
STATE = LedgerState(
    version=9,
    newest=NEWEST,
    marks=Marks({0: 10}),
    published=Marks({0: 5}),
    high_water=Marks({0: 30}),
    undone=((2, 4),),
    replay_seq=7,
)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=15))
def test_a_version_is_undone_when_a_restore_went_back_behind_it(restores: list[tuple[int, int]]) -> None:
    undone: Undone = ()
    version, gone, restored_at = 0, set(), set()
    for commits, back in restores:
        version += commits + 1
        back_to = back % version
        undone = with_restore(undone, back_to=back_to, restored_at=version)
        gone |= set(range(back_to + 1, version))
        restored_at.add(version)
    found = {v for v in range(version + 1) if is_undone(v, undone)}
    assert gone <= found
    assert found - gone <= restored_at, "no replay has the version of a RESTORE"


def test_ranges_stay_few_and_forget_no_version_when_restores_are_many() -> None:
    undone: Undone = ()
    for number in range(100):
        undone = with_restore(undone, back_to=number * 10 + 1, restored_at=number * 10 + 5)
    assert len(undone) == 20
    assert all(is_undone(number * 10 + 3, undone) for number in range(100))
    assert not is_undone(998, undone)


def test_what_the_ledger_holds_is_passed_on_by_later_commits_whatever_opens_it() -> None:
    plan: Any = SimpleNamespace(
        stream="s", run="r", topic=SimpleNamespace(id="t"), table=TableRef(path="t"), checkpoint_id="c"
    )
    batch = HeldLedger(plan, STATE).next_commit(0, 1, Bounds(Marks({0: 10}), Marks({0: 12})))
    opened = Opening("open").commit(STATE, stream="s", run="r", topic_id="t")
    for commit in (batch, opened):
        assert (commit.undone, commit.replay_seq) == (((2, 4),), 7)
        assert commit.replay_due == 3, "an outage's dead letters stay due"


def test_all_versions_are_undone_when_a_table_is_adopted_to_land_all_again() -> None:
    undone = begun_anew(STATE).undone
    assert all(is_undone(version, undone) for version in range(STATE.version + 1))
    assert not is_undone(STATE.version + 1, undone)


def test_a_checkpoint_from_before_a_restore_proves_nothing_about_the_older_marks() -> None:
    checkpoint = SimpleNamespace(position=lambda: Position(4, Marks({0: 30})))
    target: Any = SimpleNamespace(checkpoint=lambda _: checkpoint)
    assert with_completed(target, STATE).published == Marks({0: 10})
    restored = LedgerState(
        version=10, newest=NEWEST, marks=Marks({0: 10}), published=Marks({0: 5}), restored=True
    )
    assert with_completed(target, restored).published == Marks({0: 5})
