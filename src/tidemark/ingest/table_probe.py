"""Probes a table that was unavailable while its stream is idle: else its breaker would wait for new records."""

from __future__ import annotations

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.contract.errors import RetriableError
from tidemark.contract.ledger_commit import CommitKind
from tidemark.ingest.availability import TABLE
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.resilience.breaker_state import State
from tidemark.resilience.error_info import error_info_of
from tidemark.sink.append import append_nothing

log = structlog.get_logger(__name__)


def probe(spark: SparkSession, ledger: HeldLedger, schema: T.StructType) -> bool:
    """Try the table with an empty ledger commit, which also records what was dead-lettered meanwhile, so that
    it can be replayed; true if it was made. Does nothing while a batch runs, the table is available, or its
    breaker is open.

    Raises Fenced and LedgerError, as a batch would.
    """
    plan = ledger.plan
    breaker = plan.availability.breaker(TABLE)
    available = breaker.state is State.CLOSED and ledger.unrecorded is None
    if available or breaker.seconds_until_probe or not ledger.busy.acquire(blocking=False):
        return False
    try:
        plan.availability.attempt(TABLE, lambda: commit_nothing(spark, ledger, schema, "probe"))
        return True
    except (RetriableError, PySparkException) as error:
        log.info("the table is still unavailable", stream=plan.stream, error=error_info_of(error).summary)
        return False
    finally:
        ledger.busy.release()


def commit_nothing(spark: SparkSession, ledger: HeldLedger, schema: T.StructType, reason: str) -> None:
    """An empty ledger commit of what the ledger holds beyond its newest commit. The caller holds `busy`."""
    ledger.refresh(spark)
    marks = ledger.state.marks
    ledger_commit = ledger.next_commit(
        reason, ledger.state.seq, ledger.unrecorded or Bounds(marks, marks), kind=CommitKind.HEARTBEAT
    )
    ledger.doubt()
    ledger.committed(append_nothing(spark, ledger.plan.table, ledger_commit, schema))
