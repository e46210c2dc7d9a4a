"""The archive down, for less and for longer than the retries: retried, then left alone by the breaker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tidemark.config.reports import ArchiveOptions
from tidemark.config.sections import BreakerSettings
from tidemark.dev.kafka_server import free_ports
from tidemark.reports.archive.guard import BREAKER, ArchiveGuard, ArchiveRefused
from tidemark.reports.archive.objects import Folder
from tidemark.reports.requests.request import Status
from tidemark.resilience.breaker import Breaker
from tidemark.resilience.breaker_state import State

if TYPE_CHECKING:
    from tests.reports.conftest import Echo, Workflow

Workflows = Callable[..., "Workflow"]


class Broken(Folder):
    """A folder whose next writes fail."""

    def __init__(self, root: Path, failures: int) -> None:
        super().__init__(root)
        self.failures = failures
        self.tried = 0

    def write(self, key: str, body: bytes) -> None:
        self.tried += 1
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the archive is down")
        super().write(key, body)


@pytest.mark.guarantee("reports: the archive heals")
def test_a_report_is_archived_when_the_archive_heals_within_the_retries(
    workflow: Workflows, tmp_path: Path
) -> None:
    flow = workflow()
    flow.worker(objects=Broken(tmp_path / "archive", failures=3))
    row = flow.wait_for(flow.submit(), Status.COMPLETED)
    assert row.attempts == 4
    assert flow.dead_letters() == []


@pytest.mark.guarantee("reports: circuit breaker on the archive")
def test_no_attempt_is_spent_while_the_breaker_is_open(workflow: Workflows, tmp_path: Path) -> None:
    flow = workflow()
    broken = Broken(tmp_path / "archive", failures=1000)
    breaker = Breaker(BREAKER, BreakerSettings(failure_threshold=2, open_seconds=1.5, success_threshold=1))
    flow.worker(objects=broken, breaker=breaker)
    requests = [flow.submit(n=n) for n in range(6)]
    flow.wait_until(lambda: breaker.state is State.OPEN)
    tried = broken.tried
    assert tried == 2
    broken.failures = 0
    for request_id in requests:
        assert flow.wait_for(request_id, Status.COMPLETED).archive_ref
    assert breaker.state is State.CLOSED
    assert flow.dead_letters() == []
    assert flow.archive.refs() == {flow.service.status(r).archive_ref for r in requests}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ArchiveOptions, Callable[[bool], None]]]:
    """A bucket on a real server, and a switch that turns the server off and on."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    (port,) = free_ports(1)
    running: list[ThreadedMotoServer] = []

    def switch(on: bool) -> None:
        if on and not running:
            running.append(ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False))
            running[0].start()
        elif not on and running:
            running.pop().stop()

    switch(True)
    endpoint, bucket = f"http://127.0.0.1:{port}", f"reports-{os.urandom(4).hex()}"
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=bucket)
    yield ArchiveOptions(location=f"s3a://{bucket}/here", endpoint=endpoint, region="us-east-1"), switch
    switch(False)


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_reports_are_archived_when_the_s3_server_comes_back(
    workflow: Workflows, s3: tuple[ArchiveOptions, Callable[[bool], None]]
) -> None:
    options, switch = s3
    flow = workflow(archive=options.model_dump())
    breaker = Breaker(BREAKER, BreakerSettings(failure_threshold=2, open_seconds=1, success_threshold=1))
    switch(False)
    flow.worker(breaker=breaker)
    request_id = flow.submit()
    flow.wait_until(lambda: breaker.state is State.OPEN)
    switch(True)
    row = flow.wait_for(request_id, Status.COMPLETED)
    assert flow.archive.read(row.archive_ref or "") is not None
    assert flow.dead_letters() == []


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_the_worker_stops_and_spends_nothing_when_the_bucket_is_missing(
    workflow: Workflows, s3: tuple[ArchiveOptions, Callable[[bool], None]], echo: type[Echo]
) -> None:
    options, _ = s3
    missing = options.model_copy(update={"location": "s3a://no-such-bucket/here"})
    flow = workflow(archive=missing.model_dump())
    flow.worker(echo())
    request_id = flow.submit()
    with pytest.raises(Exception, match="archive refuses reports"):
        flow.wait_for(request_id, Status.COMPLETED)
    assert flow.dead_letters() == []
    assert flow.lag() == 1
    assert flow.service.status(request_id).status is Status.SUBMITTED


def test_what_a_person_must_fix_is_reported_from_what_heals() -> None:
    guard = ArchiveGuard(Breaker(BREAKER))

    def denied() -> str:
        raise PermissionError("read-only")

    def away() -> str:
        raise ConnectionError("away")

    def broken() -> Any:
        raise ValueError("a bug")

    with pytest.raises(ArchiveRefused):
        guard(denied)
    with pytest.raises(ConnectionError):
        guard(away)
    with pytest.raises(ValueError, match="a bug"):
        guard(broken)
