"""The ingest on a standalone cluster of several processes: what its driver has, its executors have not.

Not part of `make test`: `make test-cluster`. Tables and checkpoints lie on an S3 server; executors have
none of the driver's files and no state that survives them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession
from tests.cluster.standalone import StandaloneCluster, processes

from tidemark.config.reading.load import load_settings
from tidemark.config.settings import Settings
from tidemark.contract import records
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, produce
from tidemark.platform.open_session import s3_options
from tidemark.source.groups import GroupOffsets
from tidemark.source.reader import read_range
from tidemark.source.topics import KafkaAdmin

pytestmark = pytest.mark.timeout(1200)

BUCKET = "lake"
PARTITIONS = 4
BAD_EVERY = 40
AGAIN_EVERY = 100
SENT = 6_000
DDL = "id INT NOT NULL, name STRING, day STRING"
STREAMS: dict[str, dict[str, Any]] = {
    # More rejected than it takes along: they are read a second time, and kept on executors meanwhile.
    "partitioned": {"rejected-in-memory": 2, "destination": {"partition-columns": ["day"]}},
    "remembering": {"idempotency": {"mode": "fingerprint"}},
    "merging": {"idempotency": {"mode": "merge"}},
}
SUBMITTED = {
    "spark.executor.memory": "700m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}


@dataclass
class Site:
    """Three streams of one application, and what was sent to them."""

    cluster: StandaloneCluster
    broker: EmbeddedBroker
    topics: dict[str, str]
    folder: Path
    endpoint: str

    def __post_init__(self) -> None:
        keys = {"access-key-id": "test", "secret-access-key": "test", "region": "us-east-1"}
        streams = {}
        for name, options in STREAMS.items():
            own = {k: v for k, v in options.items() if k not in ("rejected-in-memory", "destination")}
            more = {k: v for k, v in options.items() if k == "rejected-in-memory"}
            streams[name] = {
                "kafka-topic": self.topics[name],
                "schema": {"ddl": DDL},
                "destination": {"bucket": BUCKET, "path": name, **options.get("destination", {})},
                "processing": {"batch-size": 1, "flush-interval": 1, "max-batch-size": 1_500, **more},
                **own,
            }
        document = {
            "kafka": {"bootstrap-servers": self.broker.bootstrap, "consumer": {"group-id": "cluster"}},
            "connector": {"topics": streams},
            "checkpoint-root": f"s3a://{BUCKET}/checkpoints",
            "state-dir": str(self.folder / "state"),
            "aws": {"s3": {"endpoint": self.endpoint, **keys}},
            # Its lines say which tasks were lost.
            "logging": {"spark-level": "warn"},
        }
        self.config = self.folder / "tidemark.yml"
        self.config.write_text(yaml.safe_dump(document))
        self.log_file = self.folder / "ingest.log"
        self.s3 = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        self.s3.create_bucket(Bucket=BUCKET)

    @property
    def settings(self) -> Settings:
        return load_settings(self.config)

    def ingest(self) -> subprocess.Popen[bytes]:
        submitted = " ".join(f"--conf {name}={value}" for name, value in SUBMITTED.items())
        with self.log_file.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tidemark.cli.app", "ingest", "--config", str(self.config)],
                env={
                    **os.environ,
                    "TIDEMARK_SPARK_MASTER": self.cluster.url,
                    "TIDEMARK_DRIVER_MEMORY": "1g",
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PYSPARK_SUBMIT_ARGS": f"{submitted} pyspark-shell",
                },
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def batch_runs(self) -> bool:
        """Whether a batch is planned in a checkpoint and not committed there."""
        newest: dict[tuple[str, str], int] = {}
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="checkpoints/")
        for key in (item["Key"] for page in pages for item in page.get("Contents", ())):
            place, _, number = key.rpartition("/")
            checkpoint, _, kind = place.rpartition("/")
            if number.isdigit():
                newest[checkpoint, kind] = max(int(number), newest.get((checkpoint, kind), -1))
        return any(
            kind == "offsets" and number > newest.get((checkpoint, "commits"), -1)
            for (checkpoint, kind), number in newest.items()
        )

    def left(self) -> int:
        """Records that no consumer group has behind it yet."""
        admin = KafkaAdmin(self.settings.kafka)
        group = GroupOffsets(admin, "cluster")
        done = [group.read(topic, tuple(range(PARTITIONS))) for topic in self.topics.values()]
        return len(STREAMS) * SENT - sum(sum(marks.values()) for marks in done)

    def words(self) -> str:
        return self.log_file.read_text(errors="replace")


def value(number: int) -> bytes:
    if number % BAD_EVERY == 7:
        return json.dumps({"id": f"bad {number}"}).encode()
    if number % AGAIN_EVERY == 50:
        number -= 1
    return json.dumps({"id": number, "name": f"n{number}", "day": f"d{number % 3}"}).encode()


@pytest.fixture
def site(broker: EmbeddedBroker, topic: Callable[..., str], tmp_path: Path) -> Iterator[Site]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with StandaloneCluster(tmp_path) as cluster:
            cluster.add_worker()
            cluster.add_worker()
            topics = {name: topic(partitions=PARTITIONS) for name in STREAMS}
            yield Site(cluster, broker, topics, tmp_path, f"http://{host}:{port}")
    finally:
        server.stop()


def test_the_books_balance_when_executors_die_in_mid_batch(site: Site, spark: SparkSession) -> None:
    for name in site.topics.values():
        sent = [SampleRecord(value(n), partition=n % PARTITIONS) for n in range(SENT)]
        produce(site.broker.bootstrap, name, sent)
    driver = site.ingest()
    try:
        kills = _kill_in_mid_batch(site, driver)
        _until(lambda: site.left() == 0 or driver.poll() is not None, 600, "all records landed")
        assert driver.poll() is None, site.words()[-5000:]
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(120) == 0, site.words()[-5000:]
    finally:
        if driver.poll() is None:
            driver.kill()
            driver.wait(30)
    assert kills == ["executor", "executor", "worker", "executor"]
    assert site.words().count("Lost task") >= 2, "no task was running on what was killed"
    _until(lambda: not site.cluster.executors(), 30, "executors ended with their application")
    _books_balance(site, spark)
    site.cluster.__exit__()
    left = [command for _, _, command in processes() if str(site.folder) in command]
    assert left == []


def _kill_in_mid_batch(site: Site, driver: subprocess.Popen[bytes]) -> list[str]:
    """One executor after another, and once a worker with its own, each while a batch runs."""
    kills = []
    for kind in ("executor", "executor", "worker", "executor"):
        _until(
            lambda: driver.poll() is not None or (len(site.cluster.executors()) == 2 and site.batch_runs()),
            300,
            f"two executors and a batch, after {kills}",
        )
        # Tasks are handed out a moment after the batch is planned.
        _until(lambda: site.cluster.busy() or not site.batch_runs(), 60, "a task, or the batch's end")
        if driver.poll() is not None or not site.batch_runs():
            break
        if kind == "worker":
            site.cluster.kill_worker()
            site.cluster.add_worker()
        else:
            site.cluster.kill_executor()
        kills.append(kind)
        time.sleep(2)
    return kills


def _books_balance(site: Site, spark: SparkSession) -> None:
    """Coordinates in table and DLQ topic are what was produced, each once; of equal contents one landed."""
    settings = site.settings
    for option, setting in s3_options(settings).items():
        spark.conf.set(f"fs.s3a.bucket.{BUCKET}.{option.removeprefix('fs.s3a.')}", setting)
    everything = {(n % PARTITIONS, n // PARTITIONS) for n in range(SENT)}
    bad = {(n % PARTITIONS, n // PARTITIONS) for n in range(SENT) if n % BAD_EVERY == 7}
    ids = {json.loads(value(n))["id"] for n in range(SENT)}
    for name, topic in site.topics.items():
        rows = spark.read.format("delta").load(f"s3a://{BUCKET}/{name}")
        landed = [tuple(r) for r in rows.select(records.PARTITION, records.OFFSET).collect()]
        assert len(landed) == len(set(landed)), f"{name}: a record landed twice"
        assert _dead_letters(settings, spark, topic) == bad, name
        if name == "remembering":
            found = [r["id"] for r in rows.select("id").collect()]
            assert len(found) == len(set(found)), "a content landed twice"
            assert set(found) == {i for i in ids if isinstance(i, int)}
        else:
            assert set(landed) | bad == everything, name
            assert not set(landed) & bad, name


def _dead_letters(settings: Settings, spark: SparkSession, topic: str) -> set[tuple[int, int]]:
    admin = KafkaAdmin(settings.kafka)
    found = admin.find(f"{topic}-dlq")
    assert found is not None
    dead_letters = read_range(spark, admin.kafka, found, start=admin.earliest(found), end=admin.ends(found))
    prefix = "__dlq.errors."
    headers = [
        {h["name"]: h["value"] for h in r[0] or ()} for r in dead_letters.select(records.HEADERS).collect()
    ]
    return {(int(h[f"{prefix}partition"]), int(h[f"{prefix}offset"])) for h in headers}


def _until(reached: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.1)
