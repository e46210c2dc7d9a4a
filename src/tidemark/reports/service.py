"""The operations of a requester: submit, query, retry, cancel."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from tidemark.contract.errors import UsageError
from tidemark.reports.publisher import NotPublished, Publisher
from tidemark.reports.requests.request import (
    ReportRequest,
    Status,
    check_parameters,
    check_text,
    requested_at,
)
from tidemark.reports.requests.store import StatusRow, StatusStore

REQUEST_ID = re.compile(r"[A-Za-z0-9._~:@+=-]{1,64}")
"""An id goes unescaped into addresses, headers and file names."""

log = structlog.get_logger("tidemark.reports")


class ReportService:
    """Stores a request before it publishes it. The sweeper publishes what was stored only."""

    def __init__(
        self,
        store: StatusStore,
        publisher: Publisher,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._now = now
        self._new_id = new_id

    def submit(
        self,
        report_type: str,
        *,
        requested_by: str,
        parameters: object,
        request_id: str | None = None,
        correlation_id: str | None = None,
    ) -> tuple[StatusRow, bool]:
        """The row, and whether it is new. The same `request_id` and content again is the same request.

        Raises `UsageError` for an invalid request. Returns also when Kafka is down.
        """
        if not report_type or len(report_type) > 64:
            raise UsageError("reportType must be 1 to 64 characters")
        if not requested_by or len(requested_by) > 320:
            raise UsageError("requestedBy must be 1 to 320 characters")
        if request_id is not None and not REQUEST_ID.fullmatch(request_id):
            raise UsageError("requestId must be 1 to 64 of the characters A-Z a-z 0-9 . _ ~ : @ + = -")
        check_text(reportType=report_type, requestedBy=requested_by, correlationId=correlation_id or "")
        request_id = request_id or self._new_id()
        correlation_id = (correlation_id or request_id)[:200]
        with structlog.contextvars.bound_contextvars(correlation_id=correlation_id):
            row, created = self._store.submit(
                ReportRequest(
                    request_id=request_id,
                    report_type=report_type,
                    requested_by=requested_by,
                    parameters_json=check_parameters(parameters),
                    requested_at=requested_at(self._now()),
                ),
                correlation_id=correlation_id,
            )
            if created:
                log.info("submitted", request_id=request_id, report_type=report_type)
                self._publish(row)
            return row, created

    def status(self, request_id: str) -> StatusRow:
        """Raises `UsageError` if there is no such request."""
        # A database refuses a NUL, and no request id has one.
        row = None if "\0" in request_id else self._store.get(request_id)
        if row is None:
            raise UsageError(f"there is no request {request_id}")
        return row

    def close(self) -> None:
        self._store.engine.dispose()

    def newest(self, limit: int = 20) -> list[StatusRow]:
        return self._store.newest(limit)

    def counts(self) -> dict[Status, int]:
        return self._store.counts()

    def retry(self, request_id: str) -> StatusRow:
        """Runs a FAILED request again, over the tables as they are now."""
        row = self.status(request_id)
        if not self._store.retry(request_id):
            raise UsageError(
                f"request {request_id} is {row.status.value}", hint="only a FAILED request can be retried"
            )
        row = self.status(request_id)
        with structlog.contextvars.bound_contextvars(correlation_id=row.correlation_id):
            self._publish(row)
        return row

    def cancel(self, request_id: str) -> StatusRow:
        row = self.status(request_id)
        if not self._store.cancel(request_id):
            raise UsageError(
                f"request {request_id} is {row.status.value} already", hint="it cannot be cancelled any more"
            )
        return self.status(request_id)

    def _publish(self, row: StatusRow) -> None:
        try:
            self._publisher.publish(row)
        except NotPublished as error:
            log.warning(
                "not published yet, the sweeper will", request_id=row.request.request_id, error=error.message
            )
            return
        self._store.published(row.request.request_id, row.generation)
