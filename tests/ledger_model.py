"""Random schedules of everything that touches a ledger, run against the functions the product runs.

Each actor (writer, second writer, replay, RESTORE, rewind, …) is a generator that does one atomic thing
between two `yield`s; a schedule picks the next one at random, and a crash drops it. What the table,
the log, Delta's transaction check, the checkpoint and the dead letters do is modelled; what Tidemark
decides is its own code. The order of effects of a start, a batch and a replay is modelled after theirs.

`python -m tests.ledger_model 50000` runs so many schedules of everything and says what they lost or doubled.
Left out: a topic created again, stores without atomic commits, fingerprint state.
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable

import structlog
from tests.ledger_rules import ALL_RULES, Event, Rule
from tests.ledger_world import MOST_A_BATCH, TOPIC_ID, Coordinate, Steps, World
from tests.ledger_writer import in_replay_chain, writer

from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.errors import Fenced, LedgerError, RestartStream, RetriableError
from tidemark.contract.ledger_commit import CommitKind
from tidemark.contract.marks import Marks
from tidemark.contract.undone import is_undone
from tidemark.ingest.restarts import MOST_IN_A_ROW
from tidemark.operations.adopt import (
    Adoptable,
    begun_anew,
    ceiling_over,
    kept,
    published_of_rows,
)
from tidemark.operations.rewind import published_after
from tidemark.sink.ledger import LedgerState

_FREEZES = ("first", "second", Event.REPLAY.value)


def replays(world: World) -> Steps[None]:
    """Lands dead letters by coordinates, with an edit or as today's schema has them; crashes at times."""
    ahead = world.rng.choice((0.0, 0.0, 1000.0))
    for number in range(8):
        actor = _replay(world, f"replay{number}", ahead)
        for _ in actor:
            if world.rng.random() < 0.03:
                break
            yield
        yield


def _replay(world: World, run: str, ahead: float) -> Steps[None]:
    """Order of effects: `dead_letters.replay`."""
    bad = set() if world.rng.random() < 0.5 else world.bad
    try:
        state = world.completed(world.state())
    except LedgerError:
        return
    if state.newest is None:
        return
    yield
    if world.holds(Rule.REOPEN):
        world.dead_letters.reopen_undone(state.undone)
    bound = state.resume if world.holds(Rule.REPLAY_BELOW_DONE) else state.marks
    if not world.holds(Rule.REPLAY_BELOW_MARKS):
        bound = world.ends
    dead_letters = {c: world.dead_letters.newest(c) for c in sorted(world.dead_letters.events)}
    ready = {
        c: e for c, e in dead_letters.items() if e.status is DeadLetterStatus.NEW and c[1] < bound.at(c[0])
    }
    if not ready:
        return
    chosen = dict(world.rng.sample(sorted(ready.items()), k=world.rng.randint(1, len(ready))))
    right = {c: e for c, e in chosen.items() if c not in bad}
    wrong = {c: e for c, e in chosen.items() if c in bad}
    yield

    def decide(now: LedgerState) -> list[Coordinate] | None:
        if world.holds(Rule.REPLAY_LOOKS_AGAIN) and not now.resume >= state.resume:
            return None
        return [c for c in right if not world.landed(c)]

    version = None
    if right:
        try:
            version = yield from in_replay_chain(world, state, decide, run)
        except LedgerError:
            return
        if version is None:
            return
    yield
    world.dead_letters.note(wrong, DeadLetterStatus.NEW, ahead=ahead)
    world.dead_letters.note(right, DeadLetterStatus.RESOLVED, ahead=ahead, table_version=version)
    yield
    undone = world.state(accept_emptied=True).undone
    if version is not None and world.holds(Rule.NOTE_CHECKED) and is_undone(version, undone):
        world.dead_letters.reopen_undone(undone)


def keeps(world: World) -> Steps[None]:
    """The DLQ table's own query."""
    while True:
        world.dead_letters.keep()
        yield


def restores(world: World) -> Steps[None]:
    for _ in range(world.rng.randint(1, 3)):
        yield from _a_while(world)
        oldest = max(0, world.forgotten)
        if len(world.log) - oldest > 2:
            version = world.rng.randrange(oldest, len(world.log) - 1)
            world.restore(version, by_timestamp=world.rng.random() < 0.3)


def rewind(world: World) -> Steps[None]:
    """As `operations.rewind`, back."""
    yield from _a_while(world)
    state = world.completed(world.state())
    if state.newest is None:
        return
    marks = Marks({p: world.rng.randint(0, m) for p, m in state.marks.items()})
    yield
    high_water = state.high_water.highest(state.marks).highest(marks)
    yield from world.open(
        "rewind", state, marks, published_after(state, marks), high_water, CommitKind.REWIND
    )


def schemas(world: World) -> Steps[None]:
    for _ in range(2):
        yield from _a_while(world)
        world.change_schema()


def empties(world: World) -> Steps[None]:
    yield from _a_while(world)
    world.truncate()


def adopt(world: World, adopted: Adoptable) -> Steps[None]:
    """As `operations.adopt`, while no writer runs."""
    if adopted.again and world.holds(Rule.ADOPT_REOPENS):
        world.dead_letters.reopen_all()
        yield
    state = world.state(accept_emptied=True)
    if adopted.again and world.holds(Rule.ADOPT_REOPENS):
        state = begun_anew(state)
    published = adopted.published if world.holds(Rule.ADOPT_IN_DOUBT) else adopted.marks
    ends = world.ends if world.holds(Rule.ADOPT_BELOW_ENDS) else Marks()
    high_water = ceiling_over(adopted.marks, ends, state, TOPIC_ID)
    seq = state.seq
    while True:
        try:
            marks = adopted.marks
            kind = CommitKind.ADOPT
            yield from world.open("adopt", state, marks, published, high_water, kind, seq=seq + 1)
            return
        except RetriableError:
            seq = max(1, seq * 2)


def _marks_of_rows(world: World) -> Marks:
    marks: dict[int, int] = {}
    for partition, offset in world.rows[-1]:
        marks[partition] = max(marks.get(partition, 0), offset + 1)
    return Marks(marks)


def _earliest(world: World) -> Adoptable:
    nothing = Marks(dict.fromkeys(world.ends, 0))
    return Adoptable(nothing, nothing, again=True)


def _choice(world: World, state: LedgerState | None) -> Adoptable:
    """What a person may choose without wanting to leave records out: `state` is the ledger's, while known."""
    earliest = _earliest(world)
    settled = state is not None and state.newest is not None and not state.restored and not state.recovering
    if not settled or world.rng.random() < 0.4:
        return earliest
    assert state is not None
    if world.forgotten == 0:
        return kept(state, earliest.marks, world.target)
    marks = earliest.marks.highest(_marks_of_rows(world))
    return Adoptable(marks, published_of_rows(marks, earliest.marks, MOST_A_BATCH))


def _a_while(world: World) -> Steps[None]:
    for _ in range(world.rng.randint(1, 25)):
        yield


class Schedule:
    """The actors of one schedule. A person takes the table over where its ledger does not fit."""

    def __init__(self, seed: int, events: frozenset[Event], rules: frozenset[Rule]) -> None:
        self.rng = random.Random(seed)
        self.events = events
        self.world = World(self.rng, rules)
        self.world.outage = Event.OUTAGE in events
        self.runs = (f"run{n}" for n in range(100_000))
        self.named = {"first": next(self.runs)}
        if Event.SECOND_WRITER in events:
            self.named["second"] = next(self.runs)
        self.restarts: dict[str, int] = {}
        self.stuck = False
        self.actors: dict[str, Steps[None]] = {n: writer(self.world, r) for n, r in self.named.items()}
        others: dict[Event, Callable[[World], Steps[None]]] = {
            Event.REPLAY: replays,
            Event.RESTORE: restores,
            Event.REWIND: rewind,
            Event.SCHEMA: schemas,
            Event.EMPTIED: empties,
        }
        self.actors |= {e.value: actor(self.world) for e, actor in others.items() if e in events}
        self.actors["letters"] = keeps(self.world)
        self.by_hand = [e for e in (Event.FORGOTTEN, Event.ADOPT) if e in events]

    def run(self) -> list[str]:
        frozen: dict[str, int] = {}
        for number in range(self.rng.randint(20, 240)):
            awake = [name for name in self.actors if frozen.get(name, 0) <= number]
            name = self.rng.choice(awake or list(self.actors))
            if name in _FREEZES and self.rng.random() < 0.06:
                frozen[name] = number + self.rng.randint(10, 80)
                continue
            self._step(name)
            if self.by_hand and self.rng.random() < 0.01:
                self._by_hand(self.by_hand.pop())
        self.world.outage = False
        return self._read_to_the_end() or ["stuck"] * self.stuck or self._violations()

    def _step(self, name: str) -> None:
        try:
            next(self.actors[name])
        except LedgerError:
            self._take_over(None)
            if name not in self.named:
                self.actors.pop(name, None)
        except (StopIteration, RestartStream, RetriableError, Fenced) as end:
            if name not in self.named:
                del self.actors[name]
                return
            self._again(name, new_process=not isinstance(end, RestartStream))
        else:
            if name in self.named and self.rng.random() < 0.07:
                self._again(name, new_process=self.rng.random() < 0.7)

    def _again(self, name: str, *, new_process: bool) -> None:
        """A query that ended begins again, in its process or in a new one, which may find no checkpoint."""
        run = self.named[name]
        if new_process:
            if Event.CHECKPOINT_LOSS in self.events and self.rng.random() < 0.3:
                self.world.checkpoints.clear()
            self.named[name] = next(self.runs)
        else:
            self.restarts[run] = 0 if run in self.world.advanced else self.restarts.get(run, 0) + 1
            self.stuck |= self.restarts[run] > MOST_IN_A_ROW
        self.world.advanced.discard(run)
        self.actors[name] = writer(self.world, self.named[name])

    def _by_hand(self, event: Event) -> None:
        try:
            state = self.world.completed(self.world.state())
        except LedgerError:
            return
        if state.newest is None:
            return
        self._stop_writers()
        if event is Event.FORGOTTEN:
            self.world.forget()
        self._take_over(state)

    def _stop_writers(self) -> None:
        for name in self.named:
            self.actors[name].close()

    def _take_over(self, state: LedgerState | None) -> None:
        self._stop_writers()
        for _ in adopt(self.world, _choice(self.world, state)):
            pass
        for name in self.named:
            self._again(name, new_process=True)

    def _read_to_the_end(self) -> list[str]:
        """One writer alone, until nothing is left to read: its process goes on while it may."""
        run = self.named["first"]
        for _ in range(MOST_IN_A_ROW):
            try:
                for _ in writer(self.world, run):
                    pass
            except LedgerError:
                for _ in adopt(self.world, _earliest(self.world)):
                    pass
            except Fenced:
                run = next(self.runs)
            except RetriableError:
                continue
            else:
                return []
        return ["stuck at the end"]

    def _violations(self) -> list[str]:
        """A record is landed once, or an open dead letter: of one that is always right only in an outage."""
        world, found = self.world, []
        world.dead_letters.keep()
        for coordinate in world.coordinates:
            landed = world.landed(coordinate)
            may_be_letter = coordinate in world.ever_bad or Event.OUTAGE in self.events
            if landed > 1:
                found.append(f"doubled {coordinate}")
            elif not landed and not (may_be_letter and coordinate in world.dead_letters.events):
                found.append(f"lost {coordinate}")
            elif not landed and not world.dead_letters.is_open(coordinate):
                found.append(f"dead letter lost {coordinate}")
        return found


def run_schedule(seed: int, *, events: frozenset[Event], rules: frozenset[Rule]) -> list[str]:
    """What one schedule lost or doubled, after a last writer has read the topic to its end undisturbed."""
    return Schedule(seed, events, rules).run()


def drawn_events(seed: int) -> frozenset[Event]:
    """Of everything at once little gets far: each event is left out at times."""
    rng = random.Random(seed)
    return frozenset(event for event in Event if rng.random() < 0.7)


def quietly() -> None:
    """What a schedule logs says nothing to anybody, and costs more than the schedule."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def main(first: int, number: int) -> int:
    quietly()
    broken = 0
    for seed in range(first, first + number):
        events = drawn_events(seed)
        found = run_schedule(seed, events=events, rules=ALL_RULES)
        if found:
            broken += 1
            sys.stdout.write(f"seed {seed}, {', '.join(sorted(events))}: {found}\n")
    sys.stdout.write(f"{number} schedules from seed {first}: {broken} lost or doubled a record\n")
    return 1 if broken else 0


if __name__ == "__main__":
    count, *begin = (int(argument) for argument in sys.argv[1:])
    sys.exit(main(begin[0] if begin else 0, count))
