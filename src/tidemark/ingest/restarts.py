"""Whether and when a failed query starts again."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.contract.backoff import Backoff
from tidemark.contract.errors import RestartStream
from tidemark.contract.failures import UNCLASSIFIED, Action, Scope
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.resilience.classification import Classifier

MOST_IN_A_ROW = 10
_AFTER_RESTART_S = 1.0


@dataclass
class RestartPolicy:
    """The failures of one stream since it last landed a batch.

    `bounded`: the run ends with an outage instead of waiting for its end.
    """

    bounded: bool
    classifier: Classifier
    ledger: HeldLedger | None = None
    failures: int = 0

    def delay_after(self, error: Exception) -> float | None:
        """Seconds before the next start, or None where the stream stops.

        A batch may ask for a restart from the ledger; an outage is waited for without limit; the tenth failure
        in a row of another kind stops the stream.
        """
        if self.ledger is not None and self.ledger.completed:
            self.failures = 0
        self.ledger = None
        self.failures += 1
        decision = self.classifier.decision_about(error)
        stops = self.classifier.classify(error).action in (Action.STOP, Action.SHUTDOWN)
        if isinstance(error, RestartStream) or decision.action is Action.RESTART_QUERY:
            return _AFTER_RESTART_S if self.failures <= MOST_IN_A_ROW else None
        if self.bounded or stops or decision.scope is not Scope.DEPENDENCY:
            return None
        if decision == UNCLASSIFIED and self.failures > MOST_IN_A_ROW:
            return None
        return Backoff().delay(self.failures)
