"""The archive: content-addressed, the same in a folder and in S3, and swept of unreferenced reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

from tidemark.config.reports import ArchiveOptions, Reports
from tidemark.contract.errors import ConfigError
from tidemark.reports.archive.archive import Archive, ArchiveDamaged, Report
from tidemark.reports.archive.objects import ObjectStore, open_objects
from tidemark.reports.assembly import open_store
from tidemark.reports.requests.claims import Claims
from tidemark.reports.requests.request import ReportRequest
from tidemark.reports.sweeper import Sweeper

REQUEST = {"requestId": "r-1", "reportType": "ECHO"}
KILLED_IN_A_WRITE = """
import os, pathlib, signal, sys
from tidemark.reports.archive.objects import Folder
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
Folder(pathlib.Path(sys.argv[1])).write(sys.argv[2], b"half")
"""


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "s3a"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "folder":
        return open_objects(ArchiveOptions(location=str(tmp_path / "archive")))
    endpoint = request.getfixturevalue("s3_endpoint")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    bucket = f"reports-{os.urandom(4).hex()}"
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=bucket)
    location = f"s3a://{bucket}/made/here"
    return open_objects(ArchiveOptions(location=location, endpoint=endpoint, region="us-east-1"))


def report(*values: int) -> Report:
    return Report(pa.table({"n": list(values)}), {"sum": sum(values)})


def test_a_report_comes_back_as_it_was_archived(objects: ObjectStore) -> None:
    archive = Archive(objects)
    ref = archive.put(report(1, 2), request=REQUEST, inputs={"t": 3})
    archived = archive.read(ref)
    assert archived is not None
    assert archived.rows() == [{"n": 1}, {"n": 2}]
    assert archived.summary["summary"] == {"sum": 3}
    assert archived.summary["inputs"] == {"t": 3}
    assert archived.summary["request"] == REQUEST
    assert {key for key, _ in objects.listing()} == {f"{ref}/report.parquet", f"{ref}/summary.json"}


def test_the_reference_is_the_same_when_the_same_report_is_archived_again(objects: ObjectStore) -> None:
    archive = Archive(objects)
    first = archive.put(report(1, 2), request=REQUEST, inputs={"t": 3})
    before = {key: objects.read(key) for key, _ in objects.listing()}
    assert archive.put(report(1, 2), request=REQUEST, inputs={"t": 3}) == first
    assert {key: objects.read(key) for key, _ in objects.listing()} == before


def test_the_reference_differs_when_content_request_or_inputs_do(objects: ObjectStore) -> None:
    archive = Archive(objects)
    refs = {
        archive.put(report(1, 2), request=REQUEST, inputs={"t": 3}),
        archive.put(report(2, 1), request=REQUEST, inputs={"t": 3}),
        archive.put(report(1, 2), request={**REQUEST, "requestId": "r-2"}, inputs={"t": 3}),
        archive.put(report(1, 2), request=REQUEST, inputs={"t": 4}),
    }
    assert len(refs) == 4


def test_only_old_unreferenced_reports_are_swept(objects: ObjectStore) -> None:
    archive = Archive(objects)
    kept = archive.put(report(1), request=REQUEST, inputs={})
    orphan = archive.put(report(2), request=REQUEST, inputs={})
    rows = archive.put(report(3), request=REQUEST, inputs={})
    objects.delete(f"{rows}/summary.json")
    asked = [REQUEST].__contains__
    assert archive.sweep(lambda refs: {kept}, asked, grace=3600) == []
    assert archive.sweep(lambda refs: {kept}, asked, grace=-5) == sorted([orphan, rows])
    assert archive.refs() == {kept}
    assert archive.read(orphan) is None


def test_what_a_killed_worker_left_half_written_is_swept(tmp_path: Path) -> None:
    """Beside a report that came after the kill, and where none came."""
    archive = Archive(open_objects(ArchiveOptions(location=str(tmp_path))))
    kept, lost = (archive.put(report(number), request=REQUEST, inputs={}) for number in (1, 2))
    for ref in (kept, lost):
        killed = subprocess.run(
            [sys.executable, "-c", KILLED_IN_A_WRITE, str(tmp_path), f"{ref}/report.parquet"]
        )
        assert killed.returncode == -signal.SIGKILL
        assert len(list((tmp_path / ref).iterdir())) == 3
    for name in ("report.parquet", "summary.json"):
        (tmp_path / lost / name).unlink()
    assert archive.sweep(lambda refs: {kept}, [REQUEST].__contains__, grace=3600) == []
    assert archive.refs() == {kept, lost}
    assert archive.sweep(lambda refs: {kept}, [REQUEST].__contains__, grace=-5) == [lost]
    assert archive.refs() == {kept}
    assert sorted(path.name for path in (tmp_path / kept).iterdir()) == ["report.parquet", "summary.json"]


@pytest.mark.parametrize(
    "which",
    ["a new one", "another one", "an older copy", "an older copy, at work", "another one, of equal ids"],
)
def test_no_report_of_another_database_is_swept(which: str, objects: ObjectStore, tmp_path: Path) -> None:
    def asked(number: int, at: str = "2026-01-01T00:00:00Z") -> ReportRequest:
        return ReportRequest(f"r-{number}", "ECHO", "ann", "{}", at)

    settings = Reports(database=f"sqlite:///{tmp_path / 'status.db'}")
    archive = Archive(objects, now=lambda: time.time() + 2 * settings.archive.orphan_grace)
    for number in (1, 2):
        wire = {**json.loads(asked(number).to_wire()), "correlationId": "c"}
        archive.put(report(number), request=wire, inputs={})
    before = archive.refs()
    known, swept = {
        "a new one": ([], 0),
        "another one": ([asked(7)], 0),
        "an older copy": ([asked(1)], 1),
        "an older copy, at work": ([asked(1)], 0),
        "another one, of equal ids": ([asked(1, "2026-05-05T00:00:00Z")], 0),
    }[which]
    store = open_store(settings)
    for request in known:
        store.submit(request, correlation_id="c")
        if which != "an older copy, at work":
            Claims(store.engine, owner="w", lease=60).fail(
                request.request_id, error_class="E", error_message=""
            )
    publisher: Any = None  # nothing is to be published again
    orphans = [Sweeper(store, publisher, settings, archive=archive).sweep().orphans for _ in range(2)]
    store.engine.dispose()
    assert orphans == [swept, 0]
    assert len(before) == 2
    assert len(before - archive.refs()) == swept, "only of a request that it knows and refers to no more"


def test_damage_is_noticed_when_an_object_was_changed(objects: ObjectStore) -> None:
    archive = Archive(objects)
    ref = archive.put(report(1), request=REQUEST, inputs={})
    objects.write(f"{ref}/report.parquet", b"something else")
    with pytest.raises(ArchiveDamaged):
        archive.read(ref)


@pytest.mark.parametrize("ref", ["../../etc/passwd", "sha256-", "", "sha256-" + "0" * 64])
def test_nothing_is_read_when_the_reference_is_none(objects: ObjectStore, ref: str) -> None:
    assert Archive(objects).read(ref) is None


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match="scheme gs"):
        open_objects(ArchiveOptions(location="gs://bucket"))


def test_a_grace_that_could_sweep_a_running_report_is_refused() -> None:
    with pytest.raises(ValueError, match="orphan-grace"):
        Reports(lease=60, archive=ArchiveOptions(orphan_grace=60))
