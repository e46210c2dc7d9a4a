"""The breaker against a model of it, under random schedules of permits, answers and time."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from tidemark.config.sections import BreakerSettings
from tidemark.contract.errors import BreakerOpen
from tidemark.resilience.breaker import Breaker, Permit
from tidemark.resilience.breaker_state import State


class BreakerModel(RuleBasedStateMachine):
    permits = Bundle("permits")

    @initialize(failures=st.integers(1, 4), successes=st.integers(1, 3))
    def start(self, failures: int, successes: int) -> None:
        self.now = 0.0
        self.settings = BreakerSettings(
            failure_threshold=failures, open_seconds=60, success_threshold=successes
        )
        self.breaker = Breaker("x", self.settings, clock=lambda: self.now, wall=lambda: self.now)
        self.state, self.failed, self.succeeded = State.CLOSED, 0, 0
        self.opened = 0.0
        self.probe: Permit | None = None
        self.probe_at = 0.0
        self.valid: set[Permit] = set()

    @rule(seconds=st.sampled_from([1.0, 30.0, 59.0, 60.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=permits)
    def ask(self) -> Permit | None:
        may = self.state is State.CLOSED
        if self.state is State.OPEN and self.now - self.opened >= 60:
            self.state, self.succeeded, self.probe, may = State.HALF_OPEN, 0, None, True
            self.valid.clear()
        elif self.state is State.HALF_OPEN and (self.probe is None or self.now - self.probe_at >= 60):
            self.valid.clear()
            may = True
        if not may:
            with pytest.raises(BreakerOpen) as refused:
                self.breaker.acquire()
            assert 0 < (refused.value.retry_after or 0) <= 60
            return None
        permit = self.breaker.acquire()
        self.valid.add(permit)
        if self.state is State.HALF_OPEN:
            self.probe, self.probe_at = permit, self.now
        return permit

    @rule(permit=permits, answer=st.sampled_from(["succeeded", "failed", "ignored"]))
    def answer(self, permit: Permit | None, answer: str) -> None:
        if permit is None:
            return
        getattr(permit, answer)()
        if permit not in self.valid:
            return
        self.valid.discard(permit)
        if self.state is State.HALF_OPEN:
            self.probe = None
            if answer == "succeeded":
                self.succeeded += 1
                if self.succeeded >= self.settings.success_threshold:
                    self.state, self.failed = State.CLOSED, 0
                    self.valid.clear()
            elif answer == "failed":
                self._open()
        elif answer == "succeeded":
            self.failed = 0
        elif answer == "failed":
            self.failed += 1
            if self.failed >= self.settings.failure_threshold:
                self._open()

    @rule()
    def reset(self) -> None:
        self.breaker.reset()
        self.state, self.failed, self.succeeded, self.probe = State.CLOSED, 0, 0, None
        self.valid.clear()

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "state"):
            assert self.breaker.state is self.state

    def _open(self) -> None:
        self.state, self.opened, self.succeeded = State.OPEN, self.now, 0
        self.valid.clear()


TestBreakerModel = BreakerModel.TestCase
TestBreakerModel.settings = settings(max_examples=150, stateful_step_count=40)
