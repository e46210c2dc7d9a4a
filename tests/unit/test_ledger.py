"""The ledger told from a table's log: marks in effect, fencing, and tables that are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidemark.config.destination import TableRef
from tidemark.contract.errors import LedgerError, RestartStream, RetriableError
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.operations.commits import newest_commits
from tidemark.sink.append import Committed, check_still_ours, state_after, written_in
from tidemark.sink.ledger import (
    LedgerState,
    commits_since,
    find_token,
    foreign_commit,
    in_generation,
    read_state,
    restored_since,
    state_of,
)
from tidemark.sink.replay_commit import in_replay_chain, replay_written_in
from tidemark.sink.table_log import LogEntry, LogPage

TABLE = TableRef(path="t")
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def ledger_commit(
    seq: int, mark: int, *, base: int, kind: CommitKind = CommitKind.BATCH, **fields: Any
) -> LedgerCommit:
    marks = Marks({0: mark})
    given: dict[str, Any] = {"token": f"run/{seq}/1", "marks": marks, "published": marks, "high_water": marks}
    return LedgerCommit(kind, "orders", seq=seq, base=base, **({"topic_id": "topic"} | given | fields))


class Log:
    """A table's log, written commit by commit, one every three hours."""

    def __init__(self) -> None:
        self.entries = [LogEntry(0, "CREATE TABLE", MIDNIGHT)]
        self.limits: list[int] = []

    def add(
        self,
        operation: str,
        parameters: dict[str, str] | None = None,
        ledger_commit: LedgerCommit | None = None,
    ) -> Log:
        version = len(self.entries)
        at = MIDNIGHT + timedelta(hours=3 * version)
        self.entries.append(LogEntry(version, operation, at, parameters or {}, ledger_commit=ledger_commit))
        return self

    def batch(self, mark: int, **fields: Any) -> Log:
        seq = sum(e.ledger_commit is not None for e in self.entries) + 1
        fields = {"base": len(self.entries) - 1} | fields
        return self.add("WRITE", {"mode": "Append"}, ledger_commit(seq, mark, **fields))

    def restore(self, version: int) -> Log:
        return self.add("RESTORE", {"version": str(version)})

    def restore_to(self, timestamp: str) -> Log:
        return self.add("RESTORE", {"version": "null", "timestamp": timestamp})

    def __call__(self, limit: int) -> LogPage:
        self.limits.append(limit)
        return LogPage(self.entries[: -limit - 1 : -1], complete=limit > len(self.entries))

    @property
    def state(self) -> LedgerState:
        return read_state(self)

    def replay(self, seq: int, **fields: Any) -> Log:
        fields = {"base": len(self.entries) - 1, "token": f"replay/{seq}"} | fields
        return self.add("WRITE", ledger_commit=ledger_commit(seq, 0, kind=CommitKind.REPLAY, **fields))


def three_batches() -> Log:
    return Log().batch(10).batch(20).batch(30)


def test_a_table_without_ledger_commits_has_no_marks() -> None:
    state = Log().add("WRITE").state
    assert (state.newest, state.version, state.seq, state.marks) == (None, 1, 0, Marks())
    assert state_of(LogPage([], complete=True)) == LedgerState(version=-1)


def test_marks_and_seq_are_the_newest_ledger_commits_when_others_commit_after_it() -> None:
    state = three_batches().add("OPTIMIZE").add("WRITE", {"mode": "Append"}).state
    assert (state.marks, state.seq, state.version, state.newest_version) == (Marks({0: 30}), 3, 5, 3)
    assert not state.restored
    assert not state.recovering


def test_a_start_resumes_where_dead_letters_are_complete() -> None:
    state = three_batches().batch(40, published=Marks({0: 30})).state
    assert state.resume == Marks({0: 30})
    assert state.published_at_least(Marks({0: 35})).resume == Marks({0: 35})
    assert state.published_at_least(Marks({0: 99})).published == Marks({0: 40})
    assert state.published_at_least(Marks({0: 5})).published == Marks({0: 30})


def test_marks_go_back_when_the_table_is_restored_to_a_version() -> None:
    state = three_batches().restore(1).state
    assert (state.marks, state.high_water, state.seq) == (Marks({0: 10}), Marks({0: 30}), 3)
    assert state.restored
    assert state.recovering
    assert state.resume == Marks({0: 10})


def test_what_is_published_goes_back_with_the_marks_when_the_table_is_restored() -> None:
    log = (
        Log()
        .batch(10, published=Marks())
        .batch(20, published=Marks({0: 10}))
        .batch(30, published=Marks({0: 20}))
    )
    log.restore(2)
    assert (log.state.marks, log.state.published) == (Marks({0: 20}), Marks({0: 10}))
    # A batch in flight during the RESTORE says how far it was published before: that is gone too.
    log.batch(40, base=3, published=Marks({0: 30}))
    assert (log.state.marks, log.state.published, log.state.resume) == (
        Marks({0: 20}),
        Marks({0: 10}),
        Marks({0: 10}),
    )


def test_marks_of_a_former_topic_are_not_the_next_ones_when_it_is_restored_to() -> None:
    log = three_batches().batch(5, topic_id="again").restore(2)
    assert (log.state.marks, log.state.published, log.state.high_water) == (Marks(), Marks(), Marks({0: 5}))
    assert log.state.restored


def test_there_are_no_marks_when_a_restore_goes_before_the_first_ledger_commit() -> None:
    state = three_batches().restore(0).state
    assert (state.marks, state.high_water) == (Marks(), Marks({0: 30}))


def test_the_newest_restore_decides_when_there_are_several() -> None:
    assert three_batches().restore(1).restore(2).state.marks == Marks({0: 20})


def test_marks_are_followed_through_when_the_restored_version_is_a_restore() -> None:
    # Version 4 is a RESTORE to version 1: the ledger commits below version 4 do not tell its marks.
    assert three_batches().restore(1).restore(4).state.marks == Marks({0: 10})
    assert three_batches().restore(1).add("OPTIMIZE").restore(5).state.marks == Marks({0: 10})


def test_marks_are_those_of_the_restored_version_when_a_restore_fell_into_its_batch() -> None:
    # Version 5 read its marks at 3, and version 4 was a RESTORE to 1: 20 to 30 are missing at version 5.
    log = three_batches().restore(1).batch(40, base=3)
    assert log.state.marks == Marks({0: 10})
    assert log.state.restored
    assert log.state.high_water == Marks({0: 40})
    opened = log.batch(10, kind=CommitKind.OPEN, high_water=Marks({0: 40}))
    assert (opened.state.marks, opened.state.restored) == (Marks({0: 10}), False)
    assert opened.restore(5).state.marks == Marks({0: 10})


def test_a_restore_is_settled_when_a_generation_was_opened_after_it() -> None:
    state = three_batches().restore(1).batch(10, kind=CommitKind.OPEN, high_water=Marks({0: 30})).state
    assert (state.marks, state.restored, state.recovering, state.seq) == (Marks({0: 10}), False, True, 4)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        # Batches at 03:00, 06:00 and 09:00 UTC; the text may mean 14 hours earlier.
        ("2026-03-01 23:30:00.0", 30),
        ("2026-03-01 20:30:00", 20),
        ("2026-03-01 17:00:00.000", 10),
        ("2026-03-01 09:00:00", 0),
        ("not a time", 0),
    ],
)
def test_the_lowest_marks_it_can_mean_hold_when_restored_to_a_timestamp(text: str, mark: int) -> None:
    state = three_batches().restore_to(text).state
    assert state.marks.at(0) == mark
    assert state.restored
    assert state.high_water == Marks({0: 30})


def test_the_lowest_marks_hold_when_a_restore_by_time_can_mean_several_versions() -> None:
    # Batches at 03:00, 06:00 and 09:00, a rewind to 5 at 12:00, a batch at 15:00; the text says 13:00.
    log = three_batches().batch(5, kind=CommitKind.REWIND, high_water=Marks({0: 30})).batch(8)
    state = log.restore_to("2026-03-01 13:00:00").state
    assert state.marks == Marks()
    later = three_batches()
    for _ in range(5):
        later.add("OPTIMIZE")
    later.batch(5, kind=CommitKind.REWIND, high_water=Marks({0: 30})).batch(40).batch(50)
    # The rewind was at 03:00 of the next day; the text says 10:00, and may mean from 20:00 to 24:00.
    assert later.restore_to("2026-03-02 10:00:00").state.marks == Marks({0: 5})


def test_versions_that_a_restore_took_back_are_passed_on_by_every_later_commit() -> None:
    log = three_batches().restore(1)
    assert log.state.undone == ((1, 4),)
    log.batch(10, kind=CommitKind.OPEN, undone=log.state.undone)
    assert not log.state.restored
    assert log.state.undone == ((1, 4),)
    log.batch(50, undone=log.state.undone).restore(6).restore(5)
    assert log.state.undone == ((1, 4), (5, 8)), "both that came since the newest ledger commit"
    assert three_batches().restore_to("2026-03-01 20:30:00").state.undone == ((2, 4),)
    text = LedgerCommit.from_json(
        ledger_commit(1, 1, base=0, undone=((1, 4), (5, 8)), replay_seq=7).to_json()
    )
    assert text is not None
    assert (text.undone, text.replay_seq) == (((1, 4), (5, 8)), 7)


def test_the_newest_seq_of_replays_is_known_however_long_ago_it_was() -> None:
    log = three_batches().replay(1).replay(2)
    assert log.state.replay_seq == 2
    log.batch(40, replay_seq=2)
    for mark in range(3000):
        log.batch(41 + mark, replay_seq=2)
    log.limits.clear()
    assert log.state.replay_seq == 2
    assert len(log.limits) == 1, "nobody searches the log for it"


def test_a_replay_among_the_commits_since_the_base_is_passed_on_by_the_next_commit() -> None:
    log = three_batches()
    before = log.state
    mine = ledger_commit(4, 40, base=3)
    log.replay(1).add("WRITE", ledger_commit=mine)
    committed = written_in(commits_since(log, 3), TABLE, mine)
    assert committed is not None
    assert state_after(committed, before).replay_seq == 1


def test_a_higher_seq_is_tried_when_a_ledger_does_not_know_the_newest_of_the_replays() -> None:
    known = 37
    tried = []

    def attempt(state: LedgerState, own: LedgerCommit) -> Committed:
        tried.append(own)
        if own.seq <= known:
            raise RetriableError("skipped")
        return Committed(9, 0, own)

    named = {"stream": "s", "topic_id": "t", "token": "run/replay"}
    made = in_replay_chain(TABLE, lambda: LedgerState(version=8), attempt, **named).ledger_commit
    assert (made.seq, made.token, made.base) == (64, "run/replay/64", 8)
    assert {own.kind for own in tried} == {CommitKind.REPLAY}
    assert len(tried) == 7
    known = 2**200
    with pytest.raises(LedgerError, match="accepts no replay"):
        in_replay_chain(TABLE, lambda: LedgerState(version=8), attempt, **named)


def test_a_replay_is_refused_when_another_commit_of_its_chain_came_first() -> None:
    log = three_batches()
    mine = ledger_commit(1, 0, base=3, kind=CommitKind.REPLAY, token="replay/mine")
    assert replay_written_in(commits_since(log, 3), TABLE, mine) is None
    log.batch(40)
    assert replay_written_in(commits_since(log, 3), TABLE, mine) is None, "the stream's do not count"
    log.replay(1, token="run/fence/1")
    with pytest.raises(RetriableError, match="another replay"):
        replay_written_in(commits_since(log, 3), TABLE, mine)


def test_a_replay_leaves_marks_and_seq_alone() -> None:
    log = three_batches()
    before = log.state
    log.add("WRITE", ledger_commit=ledger_commit(1, 99, base=3, kind=CommitKind.REPLAY, token="replay/1/1"))
    assert log.state == replace(before, version=4, replay_seq=1)
    assert foreign_commit(commits_since(log, 3), "run") is None


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("CREATE OR REPLACE TABLE AS SELECT", {}),
        ("REPLACE TABLE", {}),
        ("TRUNCATE", {}),
        ("WRITE", {"mode": "Overwrite"}),
        ("CLONE", {"source": "other"}),
        ("STREAMING UPDATE", {"outputMode": "Complete"}),
        ("DELETE", {"predicate": "[]"}),
        ("DELETE", {"predicate": '["true"]'}),
    ],
)
def test_the_table_is_refused_when_its_rows_were_taken_away(
    operation: str, parameters: dict[str, str]
) -> None:
    log = three_batches().add(operation, parameters)
    with pytest.raises(LedgerError, match=r"in version 4, after the newest ledger commit") as refused:
        read_state(log)
    assert "tidemark adopt --stream <name> --marks" in str(refused.value.hint)
    assert read_state(log, accept_emptied=True).marks == Marks({0: 30})


def test_the_table_is_refused_when_its_rows_were_taken_away_during_a_batch() -> None:
    with pytest.raises(LedgerError, match="version 4"):
        read_state(three_batches().add("TRUNCATE").batch(40, base=3))


def test_the_table_is_refused_after_the_commit_when_its_rows_went_since_the_base() -> None:
    # The next commit's base is above both: who does not look now never learns of it.
    mine = ledger_commit(4, 40, base=3)
    for log in (
        three_batches().add("TRUNCATE").add("WRITE", ledger_commit=mine),
        Log().add("WRITE", ledger_commit=mine),
    ):
        log.add("DELETE", {"predicate": "[]"})
        with pytest.raises(LedgerError, match=r"took|was emptied|saw TRUNCATE"):
            written_in(commits_since(log, mine.base if len(log.entries) > 4 else 0), TABLE, mine)
    with pytest.raises(RestartStream):
        written_in(commits_since(three_batches().restore(1).add("WRITE", ledger_commit=mine), 3), TABLE, mine)


def test_the_table_is_refused_when_it_is_restored_to_a_version_that_was_emptied() -> None:
    log = three_batches().add("TRUNCATE").batch(0, kind=CommitKind.ADOPT, high_water=Marks({0: 30}))
    assert log.state.marks == Marks({0: 0})
    with pytest.raises(LedgerError, match="version 4"):
        read_state(log.batch(10).restore(4))


def test_the_table_is_accepted_when_a_restore_brought_back_its_rows() -> None:
    state = three_batches().add("TRUNCATE").restore(3).state
    assert (state.marks, state.restored) == (Marks({0: 30}), True)


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("DELETE", {"predicate": '["(id = 3)"]'}),
        ("UPDATE", {"predicate": '["(id = 3)"]'}),
        ("WRITE", {"mode": "Append"}),
        ("VACUUM END", {}),
        ("ADD COLUMNS", {}),
        ("REPLACE COLUMNS", {}),
    ],
)
def test_the_table_is_taken_when_somebody_works_on_it(operation: str, parameters: dict[str, str]) -> None:
    assert three_batches().add(operation, parameters).state.marks == Marks({0: 30})


def test_the_table_is_taken_when_it_was_emptied_before_the_newest_ledger_commit() -> None:
    assert three_batches().add("TRUNCATE").batch(30, kind=CommitKind.ADOPT).state.marks == Marks({0: 30})


def test_older_entries_are_read_when_the_first_page_does_not_decide() -> None:
    log = three_batches()
    for _ in range(12_000):
        log.add("OPTIMIZE")
    assert log.state.marks == Marks({0: 30}), "a log of any length is read to its end"
    log.limits.clear()
    log.restore(2)
    assert log.state.marks == Marks({0: 20})
    assert log.limits == sorted(set(log.limits))
    assert len(log.limits) > 1


def test_one_short_page_is_read_when_the_newest_ledger_commit_is_near() -> None:
    log = Log()
    for mark in range(100):
        log.batch(mark)
    assert log.state.marks == Marks({0: 99})
    assert len(log.limits) == 1


def test_the_restored_table_is_refused_when_the_log_no_longer_has_the_version() -> None:
    log = three_batches().restore(1)
    kept = log.entries[2:]

    def shortened(limit: int) -> LogPage:
        return LogPage(kept[: -limit - 1 : -1], complete=limit > len(kept))

    with pytest.raises(LedgerError, match="no longer has version 1"):
        read_state(shortened)
    # Whoever sets the marks by hand needs only the seq, and what fences.
    adopted = read_state(shortened, accept_emptied=True)
    assert (adopted.seq, adopted.restored, adopted.high_water) == (3, True, Marks({0: 30}))


def test_the_commits_since_a_version_are_all_of_them_whatever_the_page() -> None:
    log = three_batches()
    for _ in range(3000):
        log.add("OPTIMIZE")
    for version in (0, 3, 17, 3002):
        page = commits_since(log, version)
        assert [e.version for e in page.entries] == list(range(3003, version, -1))
        assert page.complete
    assert commits_since(log, 3003).entries == []


def test_the_newest_ledger_commits_are_found_behind_any_number_of_others() -> None:
    log = three_batches()
    for _ in range(3000):
        log.add("OPTIMIZE")
    log.batch(40)
    assert [view.seq for view in newest_commits(log, 3)] == [4, 3, 2]
    assert [view.seq for view in newest_commits(log, 20)] == [4, 3, 2, 1]


def test_a_log_that_ends_too_early_is_refused_as_another_table() -> None:
    with pytest.raises(LedgerError, match="dropped and created again"):
        commits_since(three_batches(), 7)


def test_an_attempt_is_found_by_its_token_alone() -> None:
    log = three_batches().batch(40, token="run/4/2")
    page = commits_since(log, 3)
    found = find_token(page, "run/4/2")
    assert found is not None
    assert found.version == 4
    assert find_token(page, "run/4/1") is None
    assert find_token(commits_since(log, 4), "run/4/2") is None


def test_the_commit_of_another_run_is_foreign() -> None:
    log = three_batches().batch(40, token="other/1/1").batch(50)
    found = foreign_commit(commits_since(log, 3), "run")
    assert found is not None
    assert found.token == "other/1/1"
    assert foreign_commit(commits_since(log, 4), "run") is None


def test_a_restore_is_noticed_only_after_the_version_that_was_read() -> None:
    page = three_batches().restore(1)(10)
    assert restored_since(page, 3)
    assert not restored_since(page, 4)


def test_a_topic_created_again_starts_at_nothing_and_keeps_the_seq() -> None:
    state = three_batches().restore(1).state
    assert in_generation(state, "topic") is state
    again = in_generation(state, "another")
    assert (again.marks, again.published, again.high_water, again.restored) == (
        Marks(),
        Marks(),
        Marks(),
        False,
    )
    assert again.seq == 3


def test_a_log_without_ledger_commits_is_refused_when_there_were_some_before() -> None:
    known = read_state(three_batches())
    emptied = LedgerState(version=known.version + 5)
    with pytest.raises(LedgerError, match="dropped and created again"):
        check_still_ours(TableRef(path="t"), known, emptied, run="run")
