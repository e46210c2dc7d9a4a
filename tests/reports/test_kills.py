"""Archive, status row, offset, in that order: killed between any two, nothing is lost or doubled."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.reports.worker_process import main

from tidemark.reports.requests.request import Status

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

    from tests.reports.conftest import Workflow

POINTS = ["claimed", "made", "archived", "completed", "dead-lettered", "failed"]
WORKERS = multiprocessing.get_context("forkserver")
"""Each worker is a process of its own, forked from one that has imported what all of them need."""
WORKERS.set_forkserver_preload(
    [
        *("tidemark.reports.assembly", "tidemark.monitoring.endpoints", "pandas", "pyarrow.parquet"),
        *("structlog", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql", "psycopg"),
    ]
)
_LOOKED_AT = threading.Lock()
"""A start looks at the ends of all processes. Of two threads that look at one end the second finds 255."""


def start(flow: Workflow, folder: Path, name: str, **given: Any) -> ForkServerProcess:
    argument = {
        "settings": flow.settings.model_dump(mode="json"),
        "connection": flow.connection,
        "outage": str(folder / "outage"),
        **given,
    }
    process = WORKERS.Process(target=main, args=(argument, str(folder / f"{name}.jsonl")))
    with _LOOKED_AT:
        process.start()
    return process


def exit_code(process: ForkServerProcess, *, within: float) -> int | None:
    """None if it still runs after these seconds."""
    wait([process.sentinel], within)
    with _LOOKED_AT:
        return process.exitcode


def end(process: ForkServerProcess) -> int | None:
    process.terminate()
    code = exit_code(process, within=20)
    if code is None:
        process.kill()
        exit_code(process, within=5)
    return code


@pytest.fixture
def killed_everywhere(
    workflow: Callable[..., Workflow], new_database: Callable[[], str], tmp_path: Path
) -> Iterator[dict[str, tuple[Workflow, str]]]:
    """Per point: a request whose first worker was killed there, and that a second worker then ended."""

    def one(point: str) -> tuple[Workflow, str]:
        folder = tmp_path / point
        folder.mkdir()
        flow = workflow(apart=new_database(), archive={"location": str(folder / "archive")})
        request_id = flow.submit(fail=point in ("dead-lettered", "failed"))
        first = start(flow, folder, "first", kill_at=point)
        assert exit_code(first, within=60) == -signal.SIGKILL
        second = start(flow, folder, "second")
        try:
            done = (Status.COMPLETED, Status.FAILED)
            flow.wait_until(
                lambda: flow.service.status(request_id).status in done and flow.lag() == 0,
                timeout=60,
                every=0.3,
            )
        finally:
            assert end(second) == 0
        return flow, request_id

    with ThreadPoolExecutor(len(POINTS)) as pool:
        yield dict(zip(POINTS, pool.map(one, POINTS), strict=True))


@pytest.mark.guarantee("reports: side effects before the commit")
@pytest.mark.timeout(200)
def test_a_request_is_ended_once_when_its_worker_is_killed_at_any_point(
    killed_everywhere: dict[str, tuple[Workflow, str]],
) -> None:
    for point, (flow, request_id) in killed_everywhere.items():
        row = flow.service.status(request_id)
        dead_letters = flow.dead_letters()
        if point in ("dead-lettered", "failed"):
            assert row.status is Status.FAILED, point
            assert {dead_letter.key() for dead_letter in dead_letters} == {request_id.encode()}, point
            # Killed before its row said FAILED, it is tried again; after that, never.
            assert len(dead_letters) == (2 if point == "dead-lettered" else 1), point
            assert flow.archive.refs() == set(), point
        else:
            assert row.status is Status.COMPLETED, point
            assert dead_letters == [], point
            # An attempt that was overtaken may leave an object; the sweep is what removes it.
            flow.archive.sweep(flow.store.referenced, flow.store.has_asked, grace=0)
            assert flow.archive.refs() == {row.archive_ref}, point
            assert flow.archive.read(row.archive_ref or "") is not None, point
        assert row.attempts == {"completed": 1, "dead-lettered": 8, "failed": 4}.get(point, 2), point


def read_log(folder: Path) -> list[dict[str, Any]]:
    lines = [line for path in sorted(folder.glob("w*.jsonl")) for line in path.read_text().splitlines()]
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return sorted(found, key=lambda entry: entry["timestamp"])


@pytest.mark.guarantee("reports: per-key order")
@pytest.mark.timeout(240)
def test_every_request_ends_once_when_workers_are_killed_and_the_archive_fails(
    workflow: Callable[..., Workflow], tmp_path: Path
) -> None:
    """6 partitions, 3 workers, 500 requests; SIGKILLs, archive outages and the rebalances they bring.

    `SEED` in the environment gives another course of events.
    """
    flow = workflow(lease=2, max_crashes=50, breaker={"open-seconds": 1})
    requests = [flow.submit(n=n, fail=n % 50 == 7) for n in range(500)]
    doubled = requests[::10]
    for request_id in doubled:
        flow.service._publisher.publish(flow.service.status(request_id))
    processes = {n: start(flow, tmp_path, f"w{n}") for n in range(3)}
    ended = (Status.COMPLETED, Status.FAILED)
    started = time.monotonic()
    chance = random.Random(int(os.environ.get("SEED", "8")))
    turn, outage = 0, tmp_path / "outage"
    try:
        while sum(flow.store.counts().get(s, 0) for s in ended) < 500 or flow.lag():
            assert time.monotonic() - started < 150, flow.store.counts()
            time.sleep(chance.uniform(1.0, 3.5))
            turn += 1
            if turn <= 8:
                victim = chance.randrange(3)
                processes[victim].kill()
                exit_code(processes[victim], within=10)
                processes[victim] = start(flow, tmp_path, f"w{victim}")
            outage.unlink() if outage.exists() else turn in (2, 5) and outage.touch()
            assert all(p.is_alive() for p in processes.values())
    finally:
        outage.unlink(missing_ok=True)
        codes = [end(process) for process in processes.values()]
    assert codes == [0, 0, 0]
    assert turn > 3, "it was over before anything was killed"
    rows = [flow.service.status(request_id) for request_id in requests]
    dead_letters = {dead_letter.key().decode() for dead_letter in flow.dead_letters()}
    failed = {row.request.request_id for row in rows if row.status is Status.FAILED}
    assert {row.status for row in rows} == {Status.COMPLETED, Status.FAILED}
    assert {requests[n] for n in range(7, 500, 50)} <= failed
    assert failed <= dead_letters
    # What was left behind by workers that died between archive and status row.
    flow.archive.sweep(flow.store.referenced, flow.store.has_asked, grace=0)
    assert flow.archive.refs() == {row.archive_ref for row in rows if row.archive_ref}
    assert len({row.archive_ref for row in rows if row.archive_ref}) == 500 - len(failed)
    log = read_log(tmp_path)
    completed = [entry["request_id"] for entry in log if entry["event"] == "completed"]
    assert len(completed) == len(set(completed))
    assert set(completed) <= set(requests) - failed
    for request_id in doubled:
        first_starts = list(
            dict.fromkeys(
                entry["offset"]
                for entry in log
                if entry.get("request_id") == request_id
                and entry["event"] in ("in progress", "nothing to do")
            )
        )
        assert first_starts == sorted(first_starts), "the order of a key was not held"
