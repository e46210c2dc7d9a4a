"""Watches a running query until it ends or has to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.contract.errors import RestartStream, RetriableError
from tidemark.ingest.batch.handler import IngestBatch
from tidemark.resilience.error_info import error_info_of

log = structlog.get_logger(__name__)

_LOOK_S = 1
_STOP_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 15.0


def watch(
    query: StreamingQuery,
    handler: IngestBatch,
    stopping: threading.Event,
    meanwhile: Callable[[], object],
) -> None:
    """Return when the query has read all there was, or was stopped. `meanwhile` is called each second: its
    retriable errors are logged, RestartStream ends the query.

    Raises the error that ended the query, the handler's own where there is one. The query has ended then.
    """
    try:
        while not _ended(query, handler, stopping):
            if stopping.is_set():
                _stop_gently(query)
                return
            try:
                meanwhile()
            except RestartStream:
                raise
            except (RetriableError, PySparkException) as error:
                log.warning("background task failed", query=query.name, error=error_info_of(error).summary)
    finally:
        if query.isActive:
            stop(query, bounded=stopping.is_set())


def stop(query: StreamingQuery, *, bounded: bool) -> None:
    """Stop the query. `bounded`, for a process that is ending: Spark waits for the query's thread without
    limit, which may hang in a call to a store that does not answer.
    """
    if not bounded:
        query.stop()
        return
    stopper = threading.Thread(target=_stop_quietly, args=(query,), daemon=True)
    stopper.start()
    stopper.join(_END_TIMEOUT_S)
    if stopper.is_alive():
        log.warning("query does not end; the process ends without it", query=query.name)


def _stop_quietly(query: StreamingQuery) -> None:
    try:
        query.stop()
    except Exception as error:
        log.warning("query not stopped", query=query.name, error=error_info_of(error).summary)


def _ended(query: StreamingQuery, handler: IngestBatch, stopping: threading.Event) -> bool:
    try:
        return bool(query.awaitTermination(_LOOK_S))
    except PySparkException:
        if stopping.is_set():
            return True
        failure = handler.failure
        if failure is None:
            raise
    # Spark passes on a batch's error as text; the handler has the error itself, with its own cause.
    raise failure


def _stop_gently(query: StreamingQuery) -> None:
    """Let the running batch end, within a bound; an abandoned one runs again at the next start."""
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while query.isActive and query.status["isTriggerActive"] and query.status["isDataAvailable"]:
        if time.monotonic() > deadline:
            log.warning("batch abandoned; it runs again at the next start", query=query.name)
            break
        time.sleep(0.05)
