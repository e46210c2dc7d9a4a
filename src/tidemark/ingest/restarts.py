"""Whether and when a failed query starts again."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.contract.backoff import Backoff
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import RestartStream
from tidemark.contract.events import Event
from tidemark.contract.failures import UNCLASSIFIED, Action, Scope
from tidemark.resilience.classification import Classifier

MOST_IN_A_ROW = 10
_AFTER_RESTART_S = 1.0


@dataclass
class RestartPolicy:
    """The failures of one stream since it last landed a batch, which it observes.

    `bounded`: the run ends with an outage instead of waiting for its end. `restarts`, of `failures`, are those that
    asked for one; `unknown` those that no rule knows.
    """

    bounded: bool
    classifier: Classifier
    failures: int = 0
    restarts: int = 0
    unknown: int = 0

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchReport):
            self.failures = self.restarts = self.unknown = 0

    def delay_after(self, error: Exception) -> float | None:
        """Seconds before the next start, or None where the stream stops.

        A batch may ask for a restart from the ledger, ten times without landing one; an outage is waited for
        without limit; an unknown failure ten times.
        """
        self.failures += 1
        decision = self.classifier.decision_about(error)
        stops = self.classifier.classify(error).action in (Action.STOP, Action.SHUTDOWN)
        if isinstance(error, RestartStream) or decision.action is Action.RESTART_QUERY:
            self.restarts += 1
            return _AFTER_RESTART_S if self.restarts <= MOST_IN_A_ROW else None
        if self.bounded or stops or decision.scope is not Scope.DEPENDENCY:
            return None
        self.unknown += decision == UNCLASSIFIED
        if self.unknown > MOST_IN_A_ROW:
            return None
        return Backoff().delay(self.failures)
