"""The progress bars of `ingest --available-now`: one for each stream, on a terminal only."""

from __future__ import annotations

import threading
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import Event, StreamEnded, StreamObserver, StreamStarted
from tidemark.contract.marks import Marks


class IngestProgress(StreamObserver):
    """Moves with every batch: offsets landed of those available, records a second, rejected records.

    Log lines appear above the bars: the live display redirects standard error.
    """

    def __init__(self, console: Console | None = None, *, shown: bool = True) -> None:
        console = console or Console(stderr=True, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.fields[of]}"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("[red]{task.fields[bad]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not (shown and console.is_terminal),
        )
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}
        self._begins: dict[str, Marks] = {}
        self._rejected: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def emit(self, event: Event) -> None:
        with self._lock:
            match event:
                case StreamStarted(stream=stream, marks=marks):
                    self._begins.setdefault(stream, marks)
                    if stream not in self._tasks:
                        self._tasks[stream] = self._bars.add_task(stream, total=None, of="…", rate="", bad="")
                case BatchReport():
                    self._batch_landed(event)
                case StreamEnded(stream=stream, error=error):
                    if stream in self._tasks and error is not None:
                        self._bars.update(self._tasks[stream], bad="stopped")

    def _batch_landed(self, report: BatchReport) -> None:
        task, begin = self._tasks.get(report.stream), self._begins.get(report.stream)
        if task is None or begin is None:
            return
        bad = self._rejected[report.stream] = self._rejected.get(report.stream, 0) + report.rejected
        done = sum(max(0, mark - begin.at(p)) for p, mark in report.marks.items())
        total = done + report.lag if report.lag is not None else None
        self._bars.update(
            task,
            completed=done,
            total=total,
            of="…" if total is None else f"{total:,}",
            rate=f"{report.read / report.seconds:,.0f}/s" if report.seconds else "",
            bad=f"{bad:,} rejected" if bad else "",
        )
