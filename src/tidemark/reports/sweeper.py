"""Mends what crashes leave behind: events never published, leases of dead workers, archive orphans."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from tidemark.config.reports import Reports
from tidemark.reports.archive.archive import Archive
from tidemark.reports.publisher import Publisher
from tidemark.reports.requests.request import Status
from tidemark.reports.requests.store import StatusStore

log = structlog.get_logger("tidemark.reports")


@dataclass(frozen=True)
class Swept:
    published: int = 0
    reaped: int = 0
    orphans: int = 0


class Sweeper:
    """Any number may run at once, in every worker: a row changes hands by conditional UPDATE, and an event
    published twice is stopped at the gate.
    """

    def __init__(
        self,
        store: StatusStore,
        publisher: Publisher,
        settings: Reports,
        *,
        archive: Archive | None = None,
        on_counts: Callable[[Mapping[Status, int]], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._settings = settings
        self._archive = archive
        self._on_counts = on_counts
        self._monotonic = monotonic
        self._archive_due = monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def sweep(self) -> Swept:
        reaped = self._store.reap()
        published = 0
        for row in self._store.unpublished(
            grace=self._settings.publish_grace, republish_after=self._settings.republish_after
        ):
            self._publisher.publish(row)
            self._store.published(row.request.request_id, row.generation)
            published += 1
        orphans = self._sweep_archive_if_due()
        if self._on_counts is not None:
            self._on_counts(self._store.counts())
        if reaped or published or orphans:
            log.info("swept", reaped=reaped, published=published, orphans=orphans)
        return Swept(published, reaped, orphans)

    def _sweep_archive_if_due(self) -> int:
        """Listing an archive costs more than a query, and an orphan does no harm: so now and then only."""
        now = self._monotonic()
        if now < self._archive_due:
            return 0
        self._archive_due = now + self._settings.archive.orphan_grace / 4
        return self.sweep_archive()

    def sweep_archive(self) -> int:
        if self._archive is None:
            return 0
        grace = self._settings.archive.orphan_grace
        return len(self._archive.sweep(self._store.referenced, self._store.has_asked, grace=grace))

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
                # Tried again at the next turn; what is down now is reported by those who need it.
                log.warning("sweep failed", error=type(error).__name__)
