"""Gives up the records whose exit condition is met: a dead letter, or the end of the listener."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import structlog

from tidemark.config.listener import Listener
from tidemark.contract.errors import NonRetriableError
from tidemark.listener.delivery.assignment import Assignment
from tidemark.listener.delivery.batch import BatchResult
from tidemark.listener.delivery.dead_letter import DeadLetterPublisher
from tidemark.listener.delivery.judging import policy_of
from tidemark.listener.delivery.settlement import GivenUp, Settlement

log = structlog.get_logger("tidemark.listener")


class ListenerStopped(NonRetriableError):
    """The exit condition, or a failure that a person must look at. Nothing that failed is committed."""

    condition = "TIDEMARK_LISTENER_STOPPED"


def log_failure(result: BatchResult, settlement: Settlement) -> None:
    """One line for a batch that failed, with the first failure."""
    failure = next(iter(result.failures.values()), None)
    if failure is not None:
        log.warning(
            "batch failed",
            records=settlement.failed,
            error=f"{failure.exception_class}: {failure.message}",
            scope=failure.scope.value,
            waits_s=settlement.outage or max(settlement.delays.values(), default=0.0),
        )


class GivingUp:
    """Marks a record done only after its dead letter is acknowledged and `on_given_up` returned."""

    def __init__(
        self,
        settings: Listener,
        dead_letters: DeadLetterPublisher,
        *,
        on_given_up: Callable[[GivenUp], None] | None,
    ) -> None:
        self._settings = settings
        self._dead_letters = dead_letters
        self._policy = policy_of(settings.retry, attempts=settings.max_dlq_failures)
        self._on_given_up = on_given_up
        self._dlq_failures = 0
        self._in_a_row = 0
        self._hook_failures: Counter[str] = Counter()
        """Failures of `on_given_up`, by the coordinates of a record whose dead letter is acknowledged."""

    def row_ended(self) -> None:
        """A record succeeded, so those given up before it were not an outage."""
        self._in_a_row = 0

    def give_up(
        self, settlement: Settlement, assignment: Assignment, *, keep_alive: Callable[[], None]
    ) -> int:
        """Returns how many were written. Raises `ListenerStopped` by policy, or if the DLQ keeps failing."""
        self._check_policy(settlement)
        fresh = [g for g in settlement.given_up if g.record.coordinates not in self._hook_failures]
        try:
            self._dead_letters.publish(fresh, keep_alive=keep_alive)
        except NonRetriableError:
            raise
        except Exception as error:
            self._dlq_failed(settlement, assignment, error)
            return 0
        self._dlq_failures = 0
        if fresh:
            log.info(
                "dead letters published",
                group=self._settings.group_id,
                dead_letters=len(fresh),
                codes=dict(Counter(g.failure.category for g in fresh)),
            )
        ended = [one for one in settlement.given_up if self._call_hook(one, settlement, assignment)]
        for one in ended:
            if (owned := assignment.current(one.record)) is not None:
                owned.offsets.done(one.record.offset)
        return len(ended)

    def _call_hook(self, given_up: GivenUp, settlement: Settlement, assignment: Assignment) -> bool:
        """Whether the hook returned. If not, the record stays, but is not published a second time."""
        if self._on_given_up is None:
            return True
        where = given_up.record.coordinates
        with structlog.contextvars.bound_contextvars(correlation_id=given_up.record.correlation_id):
            try:
                self._on_given_up(given_up)
            except NonRetriableError:
                raise
            except Exception as error:
                self._hook_failures[where] += 1
                log.error("given up, but not noted down", record=where, error=type(error).__name__)
                delay = self._policy.backoff.delay(self._hook_failures[where])
                _delay([given_up], settlement, assignment, delay)
                return False
        self._hook_failures.pop(where, None)
        return True

    def _check_policy(self, settlement: Settlement) -> None:
        first = settlement.given_up[0]
        if self._settings.on_exhausted == "stop":
            raise ListenerStopped(
                f"{first.record.coordinates} failed {first.attempts} times: {first.failure.message}",
                hint="fix the cause and start again, or set `on-exhausted: dead-letter`",
            )
        limit = self._settings.max_dead_letters_in_a_row
        self._in_a_row += len(settlement.given_up)
        if limit is not None and self._in_a_row > limit:
            raise ListenerStopped(
                f"more than {limit} records would be dead-lettered with no success between them",
                hint=f"this looks like an outage, not like bad records; the first: {first.failure.message}",
            )

    def _dlq_failed(self, settlement: Settlement, assignment: Assignment, error: Exception) -> None:
        self._dlq_failures += 1
        self._in_a_row -= len(settlement.given_up)
        log.error("dead letters not written", error=str(error), failures=self._dlq_failures)
        delay = self._policy.delay(self._dlq_failures)
        if delay is None:
            raise ListenerStopped(
                f"dead letters could not be written {self._dlq_failures} times in a row: {error}",
                hint="nothing of them is committed; fix the DLQ topic and start again",
            ) from error
        _delay(settlement.given_up, settlement, assignment, delay)


def _delay(
    given_up: Iterable[GivenUp], settlement: Settlement, assignment: Assignment, seconds: float
) -> None:
    for one in given_up:
        if (owned := assignment.current(one.record)) is not None:
            settlement.delay(owned, seconds)
