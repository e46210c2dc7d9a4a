"""A pytest plugin, `-p tools.progress`: a line when a test file begins and ends, with the share of tests run."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest


class Progress:
    """Counts tests by file, from the reports of all processes of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self._write = config.get_terminal_writer()
        self._left: Counter[str] = Counter()
        self._began: dict[str, float] = {}
        self._failed: Counter[str] = Counter()
        self._all = self._ended = 0

    def _collected(self, ids: list[str]) -> None:
        self._left = Counter(_file(i) for i in ids)
        self._all = len(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._collected([item.nodeid for item in session.items])

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._collected(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        file = _file(nodeid)
        if file not in self._began:
            self._began[file] = time.monotonic()
            self._say(f"{file}: {self._left[file]} tests begin")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = _file(report.nodeid)
        self._failed[file] += report.failed
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = str(crash.message if crash else report.longrepr).strip().splitlines() or [""]
            self._say(f"{report.nodeid} FAILED: {why[0][:300]}")
        if report.when != "teardown":
            return
        self._ended += 1
        self._left[file] -= 1
        if self._left[file] == 0:
            seconds = time.monotonic() - self._began[file]
            outcome = f"{self._failed[file]} FAILED" if self._failed[file] else "passed"
            self._say(f"{file}: {outcome} in {seconds:.0f} s")

    def _say(self, line: str) -> None:
        share = 100 * self._ended // max(1, self._all)
        self._write.line(f"{share:3} %  {line}")
        self._write.flush()


def _file(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """No dot for a passed test: the line of its file reports it."""
    if isinstance(report, pytest.TestReport) and report.passed and not hasattr(report, "wasxfail"):
        return ("passed" if report.when == "call" else "", "", "")
    return None


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Registers in the process that collects the results, not in those that run tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "tidemark-progress")
