"""Retries an unavailable destination at the pace of its breaker; the batch is kept meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from tidemark.contract.errors import BreakerOpen, RestartStream, RetriesExhausted, ShutdownRequested
from tidemark.contract.events import DestinationTried, Paused, StreamObserver
from tidemark.contract.failures import Action
from tidemark.ingest.observers import Observers, of_the_topic
from tidemark.resilience.breaker import Breaker
from tidemark.resilience.breakers import Breakers
from tidemark.resilience.error_info import error_info_of
from tidemark.resilience.retry import Retrier

log = structlog.get_logger(__name__)
Result = TypeVar("Result")

TABLE = "table"
DEAD_LETTERS = "dead-letters"
_SHORTEST_PAUSE_S = 1.0


@dataclass(frozen=True)
class Availability:
    """The destinations of one stream: `{stream}/table`, `{stream}/dead-letters`.

    `bounded`, for a run that ends (`--available-now`): it waits for a breaker's next probe and ends with the
    failure if that fails; the next run resumes from the marks.
    """

    stream: str
    breakers: Breakers
    retry: Retrier
    bounded: bool = False
    observers: StreamObserver = field(default_factory=Observers)

    def breaker(self, destination: str) -> Breaker:
        return self.breakers.get(f"{self.stream}/{destination}", classifier=self.retry.classifier)

    def attempt(self, destination: str, operation: Callable[[], Result]) -> Result:
        """One operation, counted by the breaker. Raises BreakerOpen where it is not tried."""
        try:
            result = self.breaker(destination).call(operation)
        except (BreakerOpen, RestartStream, ShutdownRequested):
            raise
        except Exception as error:
            decision = self.retry.classifier.decision_about(error)
            if destination != TABLE or not of_the_topic(decision):
                failed = DestinationTried(self.stream, destination, error_info_of(error).summary)
                self.observers.emit(failed)
            raise
        self.observers.emit(DestinationTried(self.stream, destination, None))
        return result

    def retry_until_available(
        self,
        destination: str,
        operation: Callable[[], Result],
        *,
        otherwise: Callable[[RetriesExhausted | BreakerOpen], Result | None] = lambda _: None,
    ) -> Result:
        """The result of `operation` once it succeeds, or of `otherwise`, which is called each time the
        destination is unavailable and may return None.

        Raises ShutdownRequested when a pause is interrupted, and errors that are not an outage unchanged.
        """
        while True:
            try:
                return self.attempt(destination, operation)
            except (RetriesExhausted, BreakerOpen) as error:
                outage = error
            # Outside the handler: a failure in here must not be taken for a consequence of the outage.
            if not self.is_outage(outage):
                raise outage
            instead = otherwise(outage)
            if instead is not None:
                return instead
            if self.bounded and not isinstance(outage, BreakerOpen):
                raise outage
            self.pause(destination, outage)

    def wait_for(self, destination: str) -> None:
        """Wait while its breaker is open. Raises ShutdownRequested if the process is ending."""
        breaker = self.breaker(destination)
        wait = breaker.seconds_until_probe
        if wait:
            self.pause(destination, BreakerOpen(f"the breaker {breaker.name} is open", retry_after=wait))

    def is_outage(self, error: RetriesExhausted | BreakerOpen) -> bool:
        return self.retry.classifier.classify(error).action is not Action.STOP

    def pause(self, destination: str, error: BaseException) -> None:
        """Wait until the breaker lets a probe through. Raises ShutdownRequested if the process is ending."""
        delay = max(self.breaker(destination).seconds_until_probe, _SHORTEST_PAUSE_S)
        summary = error_info_of(error).summary
        log.warning(
            "paused; the batch is kept",
            stream=self.stream,
            destination=destination,
            seconds=round(delay, 1),
            error=summary,
        )
        self.observers.emit(Paused(self.stream, destination, delay, summary))
        if self.retry.sleep(delay):
            raise ShutdownRequested(
                f"{self.stream} waited for its {destination}, but the process is ending"
            ) from error
