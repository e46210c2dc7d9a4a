"""Has Delta compute a table's state between two batches instead of within the next one.

Delta needs it before each transaction with an identifier, by which a second writer is fenced: a third of the time
from the arrival of a few records to their row.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog
from pyspark.sql import SparkSession

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import summary_of_error
from tidemark.contract.events import Event, StreamObserver, StreamStarted
from tidemark.ingest.monitoring.background_thread import BackgroundThread
from tidemark.platform.session import drives_here
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)

_MOST_WAITING = 2
"""Where more streams land at the same time the cores are busy, and the batches compute their own as soon."""


class StateAhead(BackgroundThread, StreamObserver):
    """After a stream's start and after each commit: one thread for all streams.

    Nothing depends on it: a batch that begins earlier computes the state itself, or waits for what has begun.
    An error is left to the batch, which meets it too.
    """

    def __init__(self, spark: SparkSession, targets: Sequence[Target]) -> None:
        super().__init__("tidemark-state", ends_within=2)
        self._spark, self._targets = spark, {target.name: target for target in targets}
        self._due: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def emit(self, event: Event) -> None:
        if not isinstance(event, BatchReport | StreamStarted) or self._due.qsize() >= _MOST_WAITING:
            return
        if isinstance(event, StreamStarted) or event.version is not None:
            self._due.put(event.stream)

    def __exit__(self, *exception: object) -> None:
        self._due.put(None)
        super().__exit__(*exception)

    def _work(self) -> None:
        while (stream := self._due.get()) is not None and not self._over.is_set():
            try:
                # Names the number of files, which is part of the state.
                self._spark.sql(f"DESCRIBE DETAIL {self._targets[stream].table.sql}").collect()
            except Exception as error:
                log.debug("the table's state was not computed", stream=stream, error=summary_of_error(error))


@contextmanager
def state_ahead(spark: SparkSession, targets: Sequence[Target]) -> Iterator[Sequence[StreamObserver]]:
    """Observers for the ingest. None on Databricks, whose Delta has ways of its own, nor over Connect."""
    if not targets or not drives_here(spark):
        yield ()
        return
    with StateAhead(spark, targets) as observer:
        yield (observer,)
