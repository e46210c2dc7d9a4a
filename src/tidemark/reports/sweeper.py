"""Cleans up after crashes: publishes lost events, ends leases of dead workers, deletes archive orphans."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from tidemark.config.reports import Reports
from tidemark.monitoring.metrics import Metrics
from tidemark.reports.archive.archive import Archive
from tidemark.reports.publisher import Publisher, TooLarge
from tidemark.reports.requests.request import Status
from tidemark.reports.requests.store import StatusStore

log = structlog.get_logger("tidemark.reports")


def counted(metrics: Metrics, counts: Mapping[Status, int]) -> None:
    """Sets the metric of requests by status."""
    for status in Status:
        metrics.set("tidemark_report_requests", counts.get(status, 0), status=status.value)


@dataclass(frozen=True)
class Swept:
    published: int = 0
    reaped: int = 0
    orphans: int = 0


class Sweeper:
    """Any number may run at once, in every worker: a row changes hands by conditional UPDATE, and the claim stops an
    event that was published twice.
    """

    def __init__(
        self,
        store: StatusStore,
        publisher: Publisher,
        settings: Reports,
        *,
        archive: Archive | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._settings = settings
        self._archive = archive
        self._metrics = metrics
        self._archive_due = time.monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def sweep(self) -> Swept:
        reaped = self._store.reap()
        published = 0
        for row in self._store.unpublished(
            grace=self._settings.publish_grace, republish_after=self._settings.republish_after
        ):
            try:
                self._publisher.publish(row)
            except TooLarge as error:
                log.error("cannot be published", request_id=row.request.request_id, error=error.message)
                self._store.refuse(row.request.request_id, error_message=error.message)
                continue
            self._store.published(row.request.request_id, row.generation)
            published += 1
        orphans = self._sweep_archive_if_due()
        if self._metrics is not None:
            counted(self._metrics, self._store.counts())
        if reaped or published or orphans:
            log.info("swept", reaped=reaped, published=published, orphans=orphans)
        return Swept(published, reaped, orphans)

    def _sweep_archive_if_due(self) -> int:
        """Rarely, because listing an archive costs more than a query, and an orphan does no harm."""
        now, grace = time.monotonic(), self._settings.archive.orphan_grace
        if self._archive is None or now < self._archive_due:
            return 0
        self._archive_due = now + grace / 4
        store = self._store
        swept = self._archive.sweep(store.referenced, store.has_asked, under_way=store.under_way, grace=grace)
        return len(swept)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._over.wait(self._settings.sweep_interval):
            try:
                self.sweep()
            except Exception as error:
                # The next sweep tries again; a dependency that is down is reported by those who need it.
                log.warning("sweep failed", error=type(error).__name__)
