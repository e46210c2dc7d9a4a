"""Circuit breaker of one destination (`reliability-guarantees.md`, Circuit Breaker Protection).

CLOSED ──5 failures in a row──► OPEN ──60 s──► HALF_OPEN ──3 successful probes──► CLOSED
                                  ▲                │
                                  └── one failure ─┘

Long because the state machine is read as one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import structlog

from tidemark.config.sections import BreakerSettings
from tidemark.contract.errors import BreakerOpen
from tidemark.contract.failures import Action, Scope
from tidemark.resilience.breaker_state import Remembered, State, StateFile
from tidemark.resilience.classification import Classifier

log = structlog.get_logger(__name__)
Result = TypeVar("Result")


@dataclass(frozen=True)
class StateChange:
    name: str
    old: State
    new: State
    reason: str


Listener = Callable[[StateChange], None]


class Permit:
    """Permission for one operation. Answered once; an answer for a former state changes nothing."""

    def __init__(self, breaker: Breaker, epoch: int) -> None:
        self._breaker, self._epoch, self._open = breaker, epoch, True

    def succeeded(self) -> None:
        self._answer(self._breaker._on_success)

    def failed(self, reason: str = "") -> None:
        self._answer(lambda: self._breaker._on_failure(reason))

    def ignored(self) -> None:
        """Neither success nor failure: something else than the destination failed."""
        self._answer(lambda: None)

    def _answer(self, effect: Callable[[], None]) -> None:
        if self._open:
            self._open = False
            self._breaker._answered(self._epoch, effect)


class Breaker:
    """Thread-safe. Counts operations, so it goes around a `Retrier`, not inside.

    Only failures whose decision counts for it (`DEPENDENCY` scope) open it; others return the permit.
    In HALF_OPEN one probe at a time is let through; a probe without an answer after `probe_timeout`
    seconds (`open-seconds` by default) is given up, so that one that hangs does not keep the breaker half open.
    Listeners are called without the lock; one that raises is logged and changes nothing.
    """

    def __init__(
        self,
        name: str,
        settings: BreakerSettings | None = None,
        *,
        classifier: Classifier | None = None,
        file: StateFile | None = None,
        listeners: Sequence[Listener] = (),
        probe_timeout: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.settings = settings or BreakerSettings()
        self._classifier = classifier or Classifier()
        self._file, self._listeners = file, list(listeners)
        self._probe_timeout = probe_timeout or self.settings.open_seconds
        self._clock, self._wall = clock, wall
        self._lock = threading.RLock()
        self._changes: list[StateChange] = []
        self._epoch = 0
        self._probe_since: float | None = None
        found = file.load() if file else Remembered(name)
        self._state, self._failures, self._successes = found.state, found.failures, found.successes
        self._resets = found.resets
        self._opened_wall = found.opened_at
        age = wall() - found.opened_at if found.opened_at is not None else 0.0
        # A wall clock that went back must not keep it open for longer than a full period.
        self._opened = clock() - min(max(age, 0.0), self.settings.open_seconds)

    @property
    def state(self) -> State:
        """OPEN turns into HALF_OPEN when its time has passed and the next probe asks, not before."""
        with self._announced():
            self._notice_reset()
            return self._state

    @property
    def seconds_until_probe(self) -> float:
        """Seconds until the next probe; 0 unless OPEN."""
        with self._lock:
            if self._state is not State.OPEN:
                return 0.0
            return max(0.0, self._opened + self.settings.open_seconds - self._clock())

    def snapshot(self) -> Remembered:
        with self._lock:
            return self._remembered()

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def acquire(self) -> Permit:
        """Permission for one operation. Raises BreakerOpen while OPEN, or while a probe is under way in HALF_OPEN."""
        with self._announced():
            self._notice_reset()
            if self._state is State.OPEN:
                wait = self.seconds_until_probe
                if wait > 0:
                    raise BreakerOpen(
                        f"{self.name} is left alone after {self._failures} failures in a row",
                        f"it is probed in {wait:.0f} s; `tidemark breaker reset` closes it at once",
                        retry_after=wait,
                    )
                self._move(State.HALF_OPEN, f"{self.settings.open_seconds:g} s have passed")
            if self._state is State.HALF_OPEN:
                self._take_probe()
            return Permit(self, self._epoch)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Counts the operation inside by its end. Raises BreakerOpen before it starts."""
        permit = self.acquire()
        try:
            yield
            permit.succeeded()
        except Exception as error:
            decision = self._classifier.decision_about(error)
            if decision.action is Action.TREAT_AS_SUCCESS:
                permit.succeeded()
            elif decision.counts_for_breaker and decision.scope is Scope.DEPENDENCY:
                permit.failed(f"{decision.category} by rule {decision.rule}")
            raise
        finally:
            permit.ignored()

    def call(self, operation: Callable[[], Result]) -> Result:
        with self.guard():
            return operation()

    def reset(self) -> None:
        """CLOSED at once; operations under way are not counted."""
        with self._announced():
            self._learn_resets()
            self._resets += 1
            self._close("reset by a person")

    def _on_success(self) -> None:
        if self._state is State.HALF_OPEN:
            self._successes += 1
            if self._successes >= self.settings.success_threshold:
                self._close(f"{self._successes} probes succeeded")
            else:
                self._save()
        elif self._failures:
            self._failures = 0
            self._save()

    def _on_failure(self, reason: str) -> None:
        self._failures += 1
        if self._state is State.HALF_OPEN:
            self._move(State.OPEN, f"a probe failed: {reason}")
        elif self._failures >= self.settings.failure_threshold:
            self._move(State.OPEN, f"{self._failures} failures in a row, last: {reason}")
        else:
            self._save()

    def _answered(self, epoch: int, effect: Callable[[], None]) -> None:
        with self._announced():
            if epoch != self._epoch:
                return
            if self._state is State.HALF_OPEN:
                self._probe_since = None
                self._epoch += 1
            effect()

    def _take_probe(self) -> None:
        now = self._clock()
        if self._probe_since is not None:
            left = self._probe_since + self._probe_timeout - now
            if left > 0:
                raise BreakerOpen(
                    f"{self.name} is being probed, one operation at a time",
                    "wait for the probe's answer",
                    retry_after=left,
                )
            log.warning("probe given up without an answer", breaker=self.name)
            self._epoch += 1
        self._probe_since = now

    def _close(self, reason: str) -> None:
        self._failures = 0
        self._move(State.CLOSED, reason)

    def _move(self, new: State, reason: str) -> None:
        old, self._state = self._state, new
        if old is State.CLOSED:
            self._learn_resets()
        self._epoch += 1
        self._successes, self._probe_since = 0, None
        if new is State.OPEN:
            self._opened, self._opened_wall = self._clock(), self._wall()
        if old is not new:
            self._changes.append(StateChange(self.name, old, new, reason))
        self._save()

    def _notice_reset(self) -> None:
        if self._state is State.CLOSED or self._file is None:
            return
        found = self._file.load()
        if found.resets > self._resets:
            self._resets = found.resets
            self._close("reset by a person")

    def _remembered(self) -> Remembered:
        opened_at = None if self._state is State.CLOSED else self._opened_wall
        return Remembered(self.name, self._state, self._failures, self._successes, opened_at, self._resets)

    def _save(self) -> None:
        if self._file is not None:
            if self._state is State.CLOSED:
                self._learn_resets()
            self._file.save(self._remembered())

    def _learn_resets(self) -> None:
        """A closed breaker does not look at the resets of others, whose number only grows."""
        if self._file is not None:
            self._resets = max(self._resets, self._file.load().resets)

    @contextmanager
    def _announced(self) -> Iterator[None]:
        """Holds the lock; announces state changes after it is released."""
        try:
            with self._lock:
                yield
        finally:
            with self._lock:
                changes, self._changes = self._changes, []
            for change in changes:
                _announce(change, self._listeners)


def _announce(change: StateChange, listeners: Sequence[Listener]) -> None:
    log.warning("breaker", breaker=change.name, old=change.old, new=change.new, reason=change.reason)
    for listener in tuple(listeners):
        try:
            listener(change)
        except Exception as error:
            log.error("a listener of the breaker failed", breaker=change.name, error=repr(error))
