"""Handles one request event: claim, strategy, archive, status row, and then its offset."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import structlog
from sqlalchemy.exc import DataError, SQLAlchemyError

from tidemark.config.redaction import masked_text
from tidemark.contract.dead_letters import FIRST_HEADER
from tidemark.contract.errors import BreakerOpen, ConfigError, NonRetriableError, RetriableError, UsageError
from tidemark.contract.failpoints import failpoint
from tidemark.contract.failures import Scope
from tidemark.listener.delivery.batch import Batch, Record
from tidemark.listener.delivery.failure import Failure
from tidemark.listener.delivery.settlement import GivenUp
from tidemark.reports.archive.archive import Archive, Report
from tidemark.reports.archive.guard import ArchiveGuard, ArchiveRefused
from tidemark.reports.publisher import GENERATION
from tidemark.reports.requests.claims import Claim, Claims, Refused
from tidemark.reports.requests.request import BadEvent, ReportRequest, is_storable
from tidemark.reports.strategy import ReportContext, StrategyRegistry
from tidemark.resilience.classification import Classifier
from tidemark.resilience.error_info import error_info_of

CLASSIFIER = Classifier()

log = structlog.get_logger("tidemark.reports")


class LeaseRanOut(RetriableError):
    """The process stood still for longer than the lease."""

    condition = "TIDEMARK_LEASE"


class ReportWorker:
    """Handles one event at a time. Order: archive, status row, offset.

    A crash after any of them leaves a request that a second delivery finishes, or finds finished.
    """

    def __init__(
        self,
        claims: Claims,
        archive: Archive,
        strategies: StrategyRegistry,
        *,
        context: Callable[[str], ReportContext],
        guard: ArchiveGuard,
        max_crashes: int,
    ) -> None:
        self._claims = claims
        self._archive = archive
        self._strategies = strategies
        self._context = context
        self._guard = guard
        self._max_crashes = max_crashes

    def handle(self, batch: Batch) -> None:
        for record in batch.records:
            with structlog.contextvars.bound_contextvars(
                correlation_id=record.correlation_id, partition=record.partition, offset=record.offset
            ):
                self._handle(record)

    def given_up(self, given_up: GivenUp) -> None:
        """Sets FAILED, once the dead letter is acknowledged. An event that names no request has no row."""
        request_id = _request_id(given_up.record)
        if request_id is None:
            return
        failure = given_up.failure
        failpoint("report-dead-lettered")
        changed = self._claims.fail(
            request_id, error_class=failure.exception_class, error_message=failure.message
        )
        failpoint("report-failed")
        log.error("request given up", request_id=request_id, failed=changed, error=failure.message)

    def _handle(self, record: Record) -> None:
        request = ReportRequest.from_wire(record.value)
        claim = self._claims.claim(request.request_id, replay=_is_replay(record))
        if isinstance(claim, Refused):
            if claim is Refused.UNKNOWN:
                raise BadEvent(f"no request {request.request_id} was ever submitted")
            log.info("nothing to do", request_id=request.request_id, because=claim.name)
            return
        failpoint("report-claimed")
        log.info("in progress", request_id=request.request_id, attempt=claim.row.attempts)
        try:
            self._work(claim)
        except Exception as error:
            message = masked_text(str(error))
            self._claims.release(claim, error_class=type(error).__name__, error_message=message)
            raise

    def _work(self, claim: Claim) -> None:
        request = claim.row.request
        if claim.row.crashes > self._max_crashes:
            raise BadEvent(f"{claim.row.crashes} workers died on this request")
        strategy = self._strategies.get(request.report_type)
        if strategy is None:
            raise BadEvent(
                f"no strategy makes reports of type {request.report_type}",
                hint=f"known: {', '.join(sorted(self._strategies)) or 'none'}",
            )
        context = self._context(claim.row.correlation_id)
        with self._claims.heartbeat(claim) as ended:
            context.ended = ended
            context.inputs = self._pin(claim, strategy.tables(request, context), context)
            report = strategy.make(request, context)
            failpoint("report-made")
            if ended.is_set():
                log.warning("cancelled or taken over, result dropped", request_id=request.request_id)
                return
            ref = self._guard(lambda: self._put(report, claim, context.inputs))
            failpoint("report-archived")
        if not self._claims.complete(claim, ref):
            self._not_completed(request, claim)
            return
        failpoint("report-completed")
        log.info("completed", request_id=request.request_id, archive_ref=ref)

    def _not_completed(self, request: ReportRequest, claim: Claim) -> None:
        """Cancelled and taken over are another's business; a lease that ran out is one more attempt."""
        if self._claims.renew(claim):
            raise LeaseRanOut(f"the lease of request {request.request_id} ran out before it could complete")
        log.warning("cancelled or taken over, result dropped", request_id=request.request_id)

    def _pin(self, claim: Claim, tables: tuple[str, ...], context: ReportContext) -> Mapping[str, int]:
        if claim.row.inputs_json is not None:
            return dict(json.loads(claim.row.inputs_json))
        inputs = {table: context.latest_version(table) for table in sorted(tables)}
        self._claims.pin(claim, json.dumps(inputs))
        return inputs

    def _put(self, report: Report, claim: Claim, inputs: Mapping[str, int]) -> str:
        asked = {**json.loads(claim.row.request.to_wire()), "correlationId": claim.row.correlation_id}
        return self._archive.put(report, request=asked, inputs=inputs)


def judge(error: BaseException) -> Failure:
    """Classifies a failure so that no request stops the worker for all others.

    Only a failure that every request would meet stops it: configuration, or an archive that refuses reports. An open
    breaker, or a database that is down, is not the request's fault: no attempt is counted.
    """
    error_info = error_info_of(error)
    decision = CLASSIFIER.classify(error)
    if isinstance(error, ConfigError | ArchiveRefused):
        return Failure.of(error_info, decision, scope=Scope.PROCESS)
    if isinstance(error, SQLAlchemyError):
        # Its text may hold the statement's parameters.
        message = f"the status database failed: {type(error).__name__}"
        if isinstance(error, DataError):
            # The database refuses a value of this request.
            return Failure.of(error_info, decision, scope=Scope.RECORD, retriable=False, message=message)
        return Failure.of(error_info, decision, scope=Scope.DEPENDENCY, deferred=True, message=message)
    if isinstance(error, BreakerOpen):
        return Failure.of(error_info, decision, scope=Scope.DEPENDENCY, deferred=True)
    final = isinstance(error, BadEvent | UsageError | NonRetriableError)
    scope = Scope.DEPENDENCY if decision.scope is Scope.DEPENDENCY and not final else Scope.RECORD
    return Failure.of(error_info, decision, scope=scope, retriable=not final)


def _request_id(record: Record) -> str | None:
    try:
        return ReportRequest.from_wire(record.value).request_id
    except BadEvent:
        # The key still names it where the value is damaged.
        try:
            key = (record.key or b"").decode()
        except UnicodeDecodeError:
            return None
        return key if key and is_storable(key) else None


def _is_replay(record: Record) -> bool:
    """A dead letter published again, or an event of a producer that knows nothing of generations."""
    return record.header(FIRST_HEADER) is not None or record.header(GENERATION) is None
