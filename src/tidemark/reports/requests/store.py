"""Status rows: submit, query, retry, cancel, and the rows that the sweeper works on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Engine, Row, Select, and_, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from tidemark.contract.errors import UsageError
from tidemark.reports.requests.database import now_of
from tidemark.reports.requests.request import ReportRequest, Status
from tidemark.reports.requests.tables import requests


@dataclass(frozen=True)
class StatusRow:
    """A request and its status. Times are seconds since 1970."""

    request: ReportRequest
    status: Status
    correlation_id: str
    generation: int
    attempts: int
    crashes: int
    archive_ref: str | None
    error_class: str | None
    error_message: str | None
    owner: str | None
    created_at: float
    updated_at: float
    completed_at: float | None
    published_at: float | None
    inputs_json: str | None

    def public(self) -> dict[str, Any]:
        """The fields that a requester may see, in the wire's own names."""
        return {
            **{name: text for name, text in self.request.as_wire().items() if name != "parametersJson"},
            "status": self.status.value,
            "archiveRef": self.archive_ref,
            "attempts": self.attempts,
            "error": {"class": self.error_class, "message": self.error_message} if self.error_class else None,
            "correlationId": self.correlation_id,
        }


def row_of(row: Row[Any]) -> StatusRow:
    known = row._mapping
    return StatusRow(
        request=ReportRequest(**{name: known[name] for name in ReportRequest.__dataclass_fields__}),
        status=Status(known["status"]),
        **{name: known[name] for name in StatusRow.__dataclass_fields__ if name not in ("request", "status")},
    )


class StatusStore:
    """Every change is one conditional UPDATE: a caller that changed no row lost, and must not act."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = now_of(engine)

    def submit(self, request: ReportRequest, *, correlation_id: str) -> tuple[StatusRow, bool]:
        """Stores SUBMITTED, unpublished. The same request again: its row, and False.

        Raises `UsageError` if the id is taken by another request.
        """
        try:
            with self.engine.begin() as connection:
                connection.execute(
                    requests.insert().values(
                        **asdict(request),
                        status=Status.SUBMITTED.value,
                        correlation_id=correlation_id,
                        generation=1,
                        event_spent=0,
                        claim=0,
                        attempts=0,
                        crashes=0,
                        created_at=self.now,
                        updated_at=self.now,
                    )
                )
            created = True
        except IntegrityError:
            created = False
        row = self.get(request.request_id)
        if row is None:
            raise UsageError(f"request {request.request_id} could not be stored", hint="is its id too long?")
        same = (row.request.report_type, row.request.requested_by, row.request.parameters_json)
        if not created and same != (request.report_type, request.requested_by, request.parameters_json):
            raise UsageError(
                f"request {request.request_id} exists with other content", hint="use a new requestId"
            )
        return row, created

    def get(self, request_id: str) -> StatusRow | None:
        found = self._rows(select(requests).where(requests.c.request_id == request_id))
        return found[0] if found else None

    def has_asked(self, request: Mapping[str, Any]) -> bool:
        """Whether this very request, in the wire's names, was submitted here."""
        row = self.get(str(request["requestId"]))
        return row is not None and row.request.as_wire().items() <= request.items()

    def under_way(self, request: Mapping[str, Any]) -> bool:
        """Whether this request is still to be made, or is being made."""
        row = self.get(str(request["requestId"]))
        return row is not None and row.status in (Status.SUBMITTED, Status.IN_PROGRESS)

    def newest(self, limit: int = 20) -> list[StatusRow]:
        newest = select(requests).order_by(requests.c.created_at.desc(), requests.c.request_id)
        return self._rows(newest.limit(limit))

    def counts(self) -> dict[Status, int]:
        with self.engine.connect() as connection:
            found = connection.execute(
                select(requests.c.status, func.count()).group_by(requests.c.status)
            ).all()
        return {Status(status): int(count) for status, count in found}

    def published(self, request_id: str, generation: int) -> None:
        current = requests.c.generation == generation
        change(self.engine, requests.c.request_id == request_id, current, published_at=self.now)

    def refuse(self, request_id: str, *, error_message: str) -> None:
        """SUBMITTED to FAILED, without an event: it cannot be published."""
        change(
            self.engine,
            requests.c.request_id == request_id,
            requests.c.status == Status.SUBMITTED.value,
            status=Status.FAILED.value,
            error_class="TooLarge",
            error_message=error_message[:2000],
        )

    def retry(self, request_id: str) -> bool:
        """FAILED to SUBMITTED, unpublished, without pinned inputs."""
        changed = change(
            self.engine,
            requests.c.request_id == request_id,
            requests.c.status == Status.FAILED.value,
            status=Status.SUBMITTED.value,
            generation=requests.c.generation + 1,
            published_at=None,
            inputs_json=None,
            crashes=0,
            error_class=None,
            error_message=None,
        )
        return changed == 1

    def cancel(self, request_id: str) -> bool:
        """A running request's worker finds out at its next heartbeat, or when it completes."""
        changed = change(
            self.engine,
            requests.c.request_id == request_id,
            requests.c.status.in_([Status.SUBMITTED.value, Status.IN_PROGRESS.value, Status.FAILED.value]),
            status=Status.CANCELLED.value,
            owner=None,
            lease_until=None,
        )
        return changed == 1

    def unpublished(self, *, grace: float, republish_after: float, limit: int = 500) -> list[StatusRow]:
        """The outbox: requests whose event was never published, or so long ago that it must be lost."""
        never = and_(requests.c.published_at.is_(None), requests.c.updated_at <= self.now - grace)
        long_ago = and_(
            requests.c.published_at <= self.now - republish_after,
            requests.c.updated_at <= self.now - republish_after,
        )
        return self._rows(
            select(requests)
            .where(requests.c.status == Status.SUBMITTED.value, or_(never, long_ago))
            .order_by(requests.c.created_at, requests.c.request_id)
            .limit(limit)
        )

    def reap(self) -> int:
        """Requests whose owner died become SUBMITTED and unpublished again; returns how many."""
        return change(
            self.engine,
            requests.c.status == Status.IN_PROGRESS.value,
            requests.c.lease_until < self.now,
            status=Status.SUBMITTED.value,
            owner=None,
            lease_until=None,
            # Its event may be committed already; the claim makes a second one harmless.
            published_at=None,
            event_spent=0,
            crashes=requests.c.crashes + 1,
        )

    def referenced(self, refs: Iterable[str]) -> set[str]:
        """Those of the archive references that a COMPLETED request carries."""
        asked = list(refs)
        with self.engine.connect() as connection:
            return {
                ref
                for start in range(0, len(asked), 500)
                for ref in connection.scalars(
                    select(requests.c.archive_ref).where(
                        requests.c.archive_ref.in_(asked[start : start + 500])
                    )
                )
                if ref is not None
            }

    def _rows(self, query: Select[Any]) -> list[StatusRow]:
        with self.engine.connect() as connection:
            return [row_of(row) for row in connection.execute(query)]


def change(engine: Engine, *conditions: ColumnElement[bool], **values: Any) -> int:
    """One UPDATE of the rows that fulfil every condition; returns how many."""
    with engine.begin() as connection:
        changed = connection.execute(
            update(requests).where(*conditions).values(updated_at=now_of(engine), **values)
        )
        return changed.rowcount
