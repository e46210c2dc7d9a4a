"""Random schedules of everything that touches a ledger, run against the functions the product runs.

Each actor (writer, second writer, replay, RESTORE, rewind) is a generator that does one atomic thing
between two `yield`s; a schedule picks the next one at random, and a crash drops it. What the table,
the log, Delta's transaction check, the checkpoint and the dead letters do is modelled; what Tidemark
decides is its own code. Replay and rewind, and the reopening of letters, are modelled alone.

Left out: log cleanup, a topic made again, stores without atomic commits, fingerprint state.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import replace
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

from tests.ledger_world import TOPIC_ID, Checkpoint, Coordinate, Rule, World, within

from tidemark.config.destination import TableRef
from tidemark.contract.errors import Fenced, RestartStream, RetriableError
from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.new_offsets import Bounds, Novelty, novelty_of
from tidemark.sink.append import check_still_ours, state_after

TABLE = TableRef(path="modelled")

Steps = Generator[None, None, None]


class Event(StrEnum):
    CHECKPOINT_LOSS = "checkpoint loss"
    SECOND_WRITER = "second writer"
    RESTORE = "restore"
    REWIND = "rewind"
    REPLAY = "replay"
    OUTAGE = "outage"


ALL_EVENTS = frozenset(Event)


def _novel(novelty: Novelty, coordinate: Coordinate) -> bool:
    partition, offset = coordinate
    fresh = partition in novelty.fresh and offset >= novelty.fresh[partition]
    return novelty.all_fresh or fresh or within(novelty.undecided, coordinate)


def writer(world: World, run: str) -> Steps:
    """One query from its start to the topic's end. The order of effects is that of
    `ingest.start.decision` and `ingest.batch.handler`.
    """
    state = world.state()
    yield
    if state.newest is None:
        begin = Marks(dict.fromkeys(world.ends, 0))
        state = yield from world.open(run, state, begin, begin)
    elif state.restored:
        if world.holds(Rule.REOPEN):
            world.reopen_letters()
            yield
        state = yield from world.open(run, state, state.marks, state.done)
    assert state.newest is not None
    identifier = state.newest.checkpoint
    checkpoint = world.checkpoints.get(identifier)
    if checkpoint is not None and checkpoint.position <= state.marks:
        state = state.done_at_least(checkpoint.position)
        start = checkpoint.initial
    else:
        start = state.resume if world.holds(Rule.RESUME_AT_DONE) else state.marks
        identifier = f"{state.seq}-{run}"
        checkpoint = world.checkpoints.setdefault(identifier, Checkpoint(start))
    yield
    plan: Any = SimpleNamespace(
        stream="s", run=run, topic=SimpleNamespace(id=TOPIC_ID), table=TABLE, checkpoint_id=identifier
    )
    yield from _query(world, HeldLedger(plan, state), checkpoint, start)


def _query(world: World, held: HeldLedger, checkpoint: Checkpoint, start: Marks) -> Steps:
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
        yield from _land(world, held, Bounds(begin if batch_id else start, end), records, batch_id)
        if checkpoint.committed != batch_id:
            raise RestartStream("another query committed this batch")
        checkpoint.committed += 1
        batch_id += 1
        yield


def _land(world: World, held: HeldLedger, bounds: Bounds, records: list[Coordinate], batch_id: int) -> Steps:
    run = held.plan.run
    if world.rng.random() < 0.5:
        now = world.state()
        fenced = world.holds(Rule.FENCE)
        check_still_ours(TABLE, held.state, now, run=run if fenced or not now.newest else now.newest.run)
        held.state = now.done_at_least(held.state.done.highest(held.completed))
        yield
    if world.holds(Rule.NO_GAP):
        held.check_joins(bounds)
    if bounds.end <= held.state.resume and not held.state.recovering:
        held.done_up_to(bounds.end)
        return
    novelty = novelty_of(bounds, held.state)
    novel = [c for c in records if _novel(novelty, c)]
    if world.outage and world.rng.random() < 0.25:
        for coordinate in novel:
            world.publish(coordinate)
            yield
        held.done_up_to(bounds.end, landed=False)
        return
    own = held.next_commit(batch_id, len(world.log), bounds)
    committed = yield from world.append(own, [c for c in novel if c not in world.bad], novelty)
    held.state = state_after(committed, held.state)
    yield
    for coordinate in novel:
        if coordinate in world.bad:
            world.publish(coordinate)
            yield
    held.done_up_to(bounds.end)


def replay(world: World) -> Steps:
    """Lands mended letters by coordinates; a commit with rows, or a RESTORE, meanwhile is a conflict."""
    for _ in range(8):
        letters = sorted(c for c, resolved in world.resolved.items() if not resolved)
        if letters:
            letter = world.rng.choice(letters)
            state, begin = world.state(), len(world.log)
            below = letter[1] < state.marks.at(letter[0])
            if state.newest is not None and (below or not world.holds(Rule.REPLAY_BELOW_MARKS)):
                there = world.landed(letter) > 0
                yield
                if not any(world.added[begin:]):
                    token = f"replay/{len(world.log)}"
                    own = replace(state.newest, kind=CommitKind.REPLAY, token=token)
                    world.commit("MERGE", () if there else (letter,), own)
                    yield
                    world.resolved[letter] = world.landed(letter) > 0 or not world.holds(Rule.REOPEN)
        yield


def restores(world: World) -> Steps:
    for _ in range(world.rng.randint(1, 3)):
        for _ in range(world.rng.randint(1, 25)):
            yield
        if len(world.log) > 2:
            world.restore(world.rng.randrange(len(world.log) - 1))


def rewind(world: World) -> Steps:
    for _ in range(world.rng.randint(1, 25)):
        yield
    state = world.state()
    if state.newest is None or state.restored:
        return
    marks = Marks({p: world.rng.randint(0, m) for p, m in state.marks.items()})
    yield
    yield from world.open("rewind", state, marks, marks.lowest(state.done), CommitKind.REWIND)


def run_schedule(seed: int, *, events: frozenset[Event], rules: frozenset[Rule]) -> list[str]:
    """What one schedule lost or doubled, after a last writer has read the topic to its end undisturbed."""
    rng = random.Random(seed)
    world = World(rng, rules)
    world.outage = Event.OUTAGE in events
    runs = (f"run{n}" for n in range(10_000))
    named = {"first": next(runs), "second": next(runs)}
    actors: dict[str, Steps] = {"first": writer(world, named["first"])}
    if Event.SECOND_WRITER in events:
        actors["second"] = writer(world, named["second"])
    for event, actor in ((Event.REPLAY, replay), (Event.RESTORE, restores), (Event.REWIND, rewind)):
        if event in events:
            actors[event.value] = actor(world)
    for _ in range(rng.randint(20, 160)):
        name = rng.choice(list(actors))
        crashed = name in named and rng.random() < 0.05
        try:
            next(actors[name])
        except (StopIteration, RestartStream, RetriableError, Fenced) as end:
            if name not in named:
                del actors[name]
                continue
            crashed |= isinstance(end, Fenced)
            actors[name] = writer(world, named[name])
        if crashed:
            if Event.CHECKPOINT_LOSS in events and rng.random() < 0.3:
                world.checkpoints.clear()
            named[name] = next(runs)
            actors[name] = writer(world, named[name])
    world.outage = False
    return _read_to_the_end(world, next(runs)) or _violations(world)


def _read_to_the_end(world: World, run: str) -> list[str]:
    for _ in range(10):
        try:
            for _ in writer(world, run):
                pass
        except (RestartStream, RetriableError):
            continue
        return []
    return ["stuck"]


def _violations(world: World) -> list[str]:
    """A record is landed once, or an unresolved dead letter: of good ones only an outage makes one."""
    found = []
    for coordinate in world.coordinates:
        landed = world.landed(coordinate)
        if landed > 1:
            found.append(f"doubled {coordinate}")
        elif not landed and coordinate not in world.bad and coordinate not in world.resolved:
            found.append(f"lost {coordinate}")
        elif not landed and world.resolved.get(coordinate, True):
            found.append(f"dead letter lost {coordinate}")
    return found
