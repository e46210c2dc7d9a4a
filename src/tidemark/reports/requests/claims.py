"""Claims: which worker may work on a request. Each step is one conditional UPDATE."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

import structlog
from sqlalchemy import ColumnElement, Engine, and_, case, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from tidemark.reports.requests.database import now_of
from tidemark.reports.requests.request import Status, storable
from tidemark.reports.requests.store import StatusRow, change, row_of
from tidemark.reports.requests.tables import requests

log = structlog.get_logger("tidemark.reports")


class Refused(Enum):
    """Why a request is not worked on. Each of them ends the event."""

    COMPLETED = auto()
    CANCELLED = auto()
    FAILED = auto()
    """Its dead letter is written; only a replay or a retry runs it again."""
    BUSY = auto()
    """A live owner works on it. If that one dies, the reaper publishes the request again."""
    UNKNOWN = auto()


@dataclass(frozen=True)
class Claim:
    """Held by one attempt. `number` fences: an attempt whose claim was taken over changes nothing."""

    row: StatusRow
    owner: str
    number: int


class Claims:
    """`lease`: seconds a claim lasts unless `heartbeat` renews it."""

    def __init__(self, engine: Engine, *, owner: str, lease: float) -> None:
        self._engine = engine
        self._now = now_of(engine)
        self._owner = owner
        self._lease = lease

    def claim(self, request_id: str, *, replay: bool) -> Claim | Refused:
        """Takes a request that is SUBMITTED, whose lease ran out, or (a replay) that FAILED."""
        while (outcome := self._try_claim(request_id, replay=replay)) is None:
            log.debug("released meanwhile, claimed again", request_id=request_id)
        return outcome

    def _try_claim(self, request_id: str, *, replay: bool) -> Claim | Refused | None:
        row = requests.c
        expired = and_(row.status == Status.IN_PROGRESS.value, row.lease_until < self._now)
        mine = and_(row.status == Status.IN_PROGRESS.value, row.owner == self._owner)
        free = or_(row.status == Status.SUBMITTED.value, expired, mine)
        if replay:
            free = or_(free, row.status == Status.FAILED.value)
        with self._engine.begin() as connection:
            claimed = connection.execute(
                update(requests)
                .where(row.request_id == request_id, free)
                .values(
                    status=Status.IN_PROGRESS.value,
                    owner=self._owner,
                    claim=row.claim + 1,
                    lease_until=self._now + self._lease,
                    attempts=row.attempts + 1,
                    # A replay begins anew.
                    crashes=case(
                        (row.status == Status.FAILED.value, 0), (expired, row.crashes + 1), else_=row.crashes
                    ),
                    event_spent=0,
                    updated_at=self._now,
                )
            )
            if claimed.rowcount != 1:
                # The event ends here; if the owner releases the request, it must be published again.
                connection.execute(
                    update(requests)
                    .where(row.request_id == request_id, row.status == Status.IN_PROGRESS.value)
                    .values(event_spent=1)
                )
            found = connection.execute(select(requests).where(row.request_id == request_id)).first()
        if found is None:
            return Refused.UNKNOWN
        if claimed.rowcount == 1:
            return Claim(row_of(found), self._owner, found._mapping["claim"])
        status = Status(found._mapping["status"])
        if status is Status.SUBMITTED:
            return None
        return Refused.BUSY if status is Status.IN_PROGRESS else Refused[status.value]

    def renew(self, claim: Claim) -> bool:
        return self._if_held(claim, lease_until=self._now + self._lease)

    def pin(self, claim: Claim, inputs_json: str) -> bool:
        """Fixes the versions of the tables that every attempt of this request reads."""
        return self._if_held(claim, inputs_json=inputs_json)

    def complete(self, claim: Claim, archive_ref: str) -> bool:
        """Only within the lease: after it, the sweeper may delete the archived report as an orphan."""
        return self._if_held(
            claim,
            requests.c.lease_until >= self._now,
            status=Status.COMPLETED.value,
            archive_ref=archive_ref,
            completed_at=self._now,
            owner=None,
            lease_until=None,
            error_class=None,
            error_message=None,
        )

    def release(self, claim: Claim, *, error_class: str, error_message: str) -> bool:
        """Releases the request after a failed attempt; its event comes again, or a new one."""
        return self._if_held(
            claim,
            status=Status.SUBMITTED.value,
            owner=None,
            lease_until=None,
            published_at=case((requests.c.event_spent == 1, None), else_=requests.c.published_at),
            event_spent=0,
            error_class=error_class[:256],
            error_message=storable(error_message)[:2000],
        )

    def fail(self, request_id: str, *, error_class: str, error_message: str) -> bool:
        """FAILED after its dead letter was acknowledged, unless another worker holds it or it ended."""
        row = requests.c
        mine = and_(row.status == Status.IN_PROGRESS.value, row.owner == self._owner)
        changed = change(
            self._engine,
            row.request_id == request_id,
            or_(row.status == Status.SUBMITTED.value, mine),
            status=Status.FAILED.value,
            owner=None,
            lease_until=None,
            error_class=error_class[:256],
            error_message=storable(error_message)[:2000],
        )
        return changed == 1

    def _if_held(self, claim: Claim, *further: ColumnElement[bool], **values: object) -> bool:
        row = requests.c
        held = (
            row.request_id == claim.row.request.request_id,
            row.status == Status.IN_PROGRESS.value,
            row.owner == claim.owner,
            row.claim == claim.number,
        )
        return change(self._engine, *held, *further, **values) == 1

    @contextmanager
    def heartbeat(self, claim: Claim) -> Iterator[threading.Event]:
        """Renews the lease while the block runs. Yields an event that is set once the claim is gone."""
        lost, over = threading.Event(), threading.Event()

        def beat() -> None:
            while not over.wait(self._lease / 3):
                try:
                    if not self.renew(claim):
                        lost.set()
                        return
                except SQLAlchemyError as error:
                    log.warning(
                        "heartbeat failed",
                        request_id=claim.row.request.request_id,
                        error=type(error).__name__,
                    )

        # The thread logs with the correlation id that is bound here.
        here = contextvars.copy_context()
        thread = threading.Thread(target=lambda: here.run(beat), name="lease", daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            over.set()
            thread.join(timeout=5)
