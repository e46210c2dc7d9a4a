"""Runs the DLQ table's query: along with its stream, where the configuration asks for it, or in a job of its own."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.config.settings import Settings
from tidemark.contract.errors import TidemarkError
from tidemark.contract.failures import Action
from tidemark.dead_letters.dlq_table.query import keep_dead_letters, start_dead_letters
from tidemark.ingest.query import stop
from tidemark.resilience.classification import classifier_for
from tidemark.resilience.error_info import error_info_of
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)

_LOOK_AGAIN_S = 30.0


@dataclass
class DeadLetterTableQuery:
    """Called each second: starts the query once there is a DLQ topic, and again where it failed. Never
    stops the stream: the dead letters are safe on the topic. `alone`, in a job of its own, it raises what a person
    has to fix.
    """

    spark: SparkSession
    settings: Settings
    target: Target
    bounded: bool
    polling: int = 1
    alone: bool = False
    _query: StreamingQuery | None = None
    _not_before: float = 0.0

    def __call__(self) -> None:
        if self.bounded or not self._wanted or time.monotonic() < self._not_before:
            return
        if self._query is not None and self._query.isActive:
            return
        self._not_before = time.monotonic() + _LOOK_AGAIN_S
        try:
            if self._query is not None and (failure := self._query.exception()) is not None:
                self._warn(failure)
            self._query = start_dead_letters(
                self.spark, self.settings, self.target, available_now=False, polling=self.polling
            )
        except (TidemarkError, PySparkException) as error:
            self._warn(error)

    def finish(self, stopping: threading.Event) -> None:
        """Stop the query. A bounded run stores the dead letters that are there, unless it is stopping."""
        if self._query is not None:
            stop(self._query, bounded=stopping.is_set())
            self._query = None
        if not (self.bounded and self._wanted) or stopping.is_set():
            return
        try:
            keep_dead_letters(self.spark, self.settings, self.target, ending=stopping)
        except (TidemarkError, PySparkException) as error:
            self._warn(error)

    @property
    def _wanted(self) -> bool:
        return self.alone or self.target.keeps_dead_letters

    def _warn(self, error: Exception) -> None:
        classifier = classifier_for(self.target.stream.failures)
        if self.alone and classifier.classify(error).action is Action.STOP:
            raise error
        log.warning("dead letters not kept", stream=self.target.name, error=error_info_of(error).summary)
