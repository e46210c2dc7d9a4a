"""One query in the model of the ledger, from its start to the topic's end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.ledger_rules import Rule
from tests.ledger_world import TABLE, TOPIC_ID, Checkpoint, Coordinate, Steps, World, within

from tidemark.contract.errors import LedgerError, RestartStream, RetriableError
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.new_offsets import Bounds, NewOffsets, new_offsets_of
from tidemark.ingest.start.decision import fresh_identifier
from tidemark.ingest.start.marks_went_back import may_land_replayed
from tidemark.sink.append import state_after
from tidemark.sink.ledger import LedgerState, read_state


def writer(world: World, run: str) -> Steps[None]:
    """Order of effects: `ingest.start.decision`, then `ingest.batch.handler`."""
    state, bad = world.state(), world.bad
    yield
    state = yield from _opened(world, run, state)
    state = world.completed(state)
    if world.holds(Rule.REOPEN):
        world.dead_letters.reopen_undone(state.undone)
        yield
    if world.holds(Rule.REPLAYS_FENCED) and may_land_replayed(state):
        yield from _fence(world, run)
    assert state.newest is not None
    identifier = state.newest.checkpoint
    checkpoint = world.checkpoints.get(identifier)
    position = checkpoint.position() if checkpoint else None
    if checkpoint is not None and position is not None and position.end <= state.marks:
        start = checkpoint.initial
    else:
        start = state.resume if world.holds(Rule.RESUME_AT_DONE) else state.marks
        identifier = fresh_identifier("kafka-native", state.seq, run)
        if not world.holds(Rule.FRESH_CHECKPOINT):
            identifier = f"kafka-native-{state.seq}-{run}"
        checkpoint = world.checkpoints.setdefault(identifier, Checkpoint(start))
    yield
    plan: Any = SimpleNamespace(
        stream="s", run=run, topic=SimpleNamespace(id=TOPIC_ID), table=TABLE, checkpoint_id=identifier
    )
    yield from _query(world, HeldLedger(plan, state), checkpoint, start, bad)


def _opened(world: World, run: str, state: LedgerState) -> Steps[LedgerState]:
    if state.newest is None:
        if world.rows[-1]:
            raise LedgerError("rows and no marks")
        begin = Marks(dict.fromkeys(world.ends, 0))
        try:
            return (yield from world.open(run, state, begin, begin, begin))
        except RetriableError as error:
            raise LedgerError("remembers the stream, and has no marks") from error
    if state.restored:
        return (yield from world.open(run, state, state.marks, state.published))
    return state


def _fence(world: World, run: str) -> Steps[None]:
    """As `ingest.start.marks_went_back.fence_replays`."""
    yield from in_replay_chain(world, read_state(world.read_log), lambda _: [], run)


def in_replay_chain(world: World, state: LedgerState, decide: Any, run: str) -> Steps[int | None]:
    """As `sink.replay_commit.in_replay_chain`: the version of the commit, None where `decide` gave it up."""
    tried = 0
    for _ in range(70):
        tried = state.replay_seq + 1 if state.replay_seq >= tried else tried * 2
        rows = decide(state)
        if rows is None:
            return None
        token = f"{run}/{tried}/{len(world.log)}"
        world.decided[token] = rows
        try:
            yield
            ledger_commit = LedgerCommit(CommitKind.REPLAY, "s", TOPIC_ID, token, tried, state.version)
            return (yield from world.append_replayed(ledger_commit, rows)).version
        except RetriableError:
            yield
        finally:
            world.decided.pop(token, None)
        state = world.completed(world.state())
        yield
    raise LedgerError("no replay is accepted")


def _query(
    world: World, held: HeldLedger, checkpoint: Checkpoint, start: Marks, bad: set[Coordinate]
) -> Steps[None]:
    batch_id = checkpoint.committed
    replanned = True
    while True:
        begin = checkpoint.planned[batch_id - 1] if batch_id else checkpoint.initial
        if batch_id == len(checkpoint.planned):
            if begin >= world.ends:
                return
            steps = {p: begin.at(p) + world.rng.randint(0, 3) for p in world.ends}
            checkpoint.planned.append(begin.highest(Marks(steps).lowest(world.ends)))
        elif not replanned:
            raise RestartStream("another query plans batches in this checkpoint")
        replanned = False
        yield
        end = checkpoint.planned[batch_id]
        records = [c for c in world.coordinates if begin.at(c[0]) <= c[1] < end.at(c[0])]
        yield from _land(world, held, Bounds(begin if batch_id else start, end), records, batch_id, bad)
        if checkpoint.committed != batch_id:
            raise RestartStream("another query committed this batch")
        checkpoint.committed += 1
        batch_id += 1
        yield


def _land(
    world: World,
    held: HeldLedger,
    bounds: Bounds,
    records: list[Coordinate],
    batch_id: int,
    bad: set[Coordinate],
) -> Steps[None]:
    if world.rng.random() < 0.5:
        # The log is read again when the last look is older than a moment.
        now = world.state()
        if world.holds(Rule.FENCE) or now.newest is None or held.state.newest is None:
            held.compare(now)
        elif now.restored:
            raise RestartStream("restored")
        else:
            held.state = now.published_at_least(held.state.published.highest(held.completed))
        yield
    if world.holds(Rule.NO_GAP):
        held.check_joins(bounds)
    if bounds.end <= held.state.resume and not held.state.recovering:
        _done(world, held, bounds)
        return
    new_offsets = new_offsets_of(bounds, held.state)
    is_new = [c for c in records if _is_new(new_offsets, c)]
    if world.outage and world.rng.random() < 0.25:
        for coordinate in is_new:
            world.dead_letters.topic.append(coordinate)
            yield
        _done(world, held, bounds, landed=False)
        return
    ledger_commit = held.next_commit(batch_id, len(world.log), bounds)
    committed = yield from world.append(ledger_commit, [c for c in is_new if c not in bad], new_offsets)
    held.state = state_after(committed, held.state)
    yield
    for coordinate in is_new:
        if coordinate in bad:
            world.dead_letters.topic.append(coordinate)
            yield
    _done(world, held, bounds)


def _done(world: World, held: HeldLedger, bounds: Bounds, *, landed: bool = True) -> None:
    held.published_up_to(bounds.end, landed=landed)
    world.advanced.add(held.plan.run)


def _is_new(new_offsets: NewOffsets, coordinate: Coordinate) -> bool:
    partition, offset = coordinate
    fresh = partition in new_offsets.fresh and offset >= new_offsets.fresh[partition]
    return new_offsets.all_fresh or fresh or within(new_offsets.uncertain, coordinate)
