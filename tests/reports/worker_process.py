"""A worker as a process of its own, for tests that kill it. One argument; JSON lines to a file.

Keys: `settings`, `connection`, `kill_at` (a failpoint to die at) and
`outage` (a file: as long as it is there, the archive is down).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from tidemark.config.reports import Reports
from tidemark.contract.failpoints import VARIABLE
from tidemark.reports.archive.archive import Report
from tidemark.reports.archive.objects import Folder
from tidemark.reports.assembly import open_worker
from tidemark.reports.requests.request import ReportRequest
from tidemark.reports.strategy import ReportContext, StrategyRegistry


class Light:
    """Small and deterministic; a request with the parameter `fail` always fails."""

    report_type = "ECHO"

    def tables(self, request: ReportRequest, context: ReportContext) -> tuple[str, ...]:
        return ()

    def make(self, request: ReportRequest, context: ReportContext) -> Report:
        time.sleep(float(request.parameters.get("seconds", 0.005)))
        if request.parameters.get("fail"):
            raise ValueError("this request always fails")
        return Report(pa.table({"request": [request.request_id]}), {"asked": dict(request.parameters)})


class Outages:
    """A folder that is unreachable while a file exists."""

    def __init__(self, folder: Folder, outage: Path) -> None:
        self._folder = folder
        self._outage = outage

    def write(self, key: str, body: bytes) -> None:
        if self._outage.exists():
            raise ConnectionError("the archive is down")
        self._folder.write(key, body)

    def read(self, key: str) -> bytes | None:
        return self._folder.read(key)

    def listing(self) -> Iterator[tuple[str, float]]:
        return self._folder.listing()

    def delete(self, key: str) -> None:
        self._folder.delete(key)


def main(given: dict[str, Any], log: str) -> None:
    lines = Path(log).open("a", buffering=1)  # noqa: SIM115  # open as long as the process is
    os.dup2(lines.fileno(), 2)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.TimeStamper(fmt=None),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(lines),
    )
    settings = Reports.model_validate(given["settings"])
    if "kill_at" in given:
        os.environ[VARIABLE] = f"report-{given['kill_at']}=kill"
    registry = StrategyRegistry()
    registry.register(Light())
    worker = open_worker(
        settings,
        given["connection"],
        strategies=registry,
        objects=Outages(Folder(Path(settings.archive.location)), Path(given["outage"])),
    )
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stop())
    worker.run()
