"""A table's log on S3 as `tidemark status` reads it: without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
from tests.s3.s3_server import faulty_s3

from tidemark.config.destination import TableRef
from tidemark.config.reading.load import load_settings
from tidemark.platform.open_session import s3_files
from tidemark.sink.log_files import logs_in

KEYS = {"access-key-id": "test", "secret-access-key": "test", "region": "us-east-1"}


def test_the_newest_entries_of_a_log_on_s3_are_read_without_spark(tmp_path: Path) -> None:
    with faulty_s3() as s3:
        client = boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket="lake")
        for version, operation in enumerate(("CREATE TABLE", "WRITE", "OPTIMIZE")):
            body = json.dumps({"commitInfo": {"timestamp": 1_700_000_000_000, "operation": operation}})
            client.put_object(Bucket="lake", Key=f"t/_delta_log/{version:020}.json", Body=body.encode())
        client.put_object(Bucket="lake", Key="t/_delta_log/_last_checkpoint", Body=b"{}")
        file = tmp_path / "tidemark.yml"
        topic = {"kafka-topic": "events", "landing": {"destination": {"bucket": "lake", "path": "t"}}}
        file.write_text(
            json.dumps(
                {
                    "aws": {"s3": {**KEYS, "endpoint": s3.endpoint, "path-style-access": True}},
                    "kafka": {"bootstrap-servers": "localhost:9092"},
                    "connector": {"topics": {"events": topic}},
                }
            )
        )
        settings = load_settings(file)

        logs = logs_in(lambda _: s3_files(settings))
        log = logs(TableRef(path="s3a://lake/t"))

        assert log is not None
        assert [(e.version, e.operation) for e in log(2).entries] == [(2, "OPTIMIZE"), (1, "WRITE")]
        assert log(4).complete
        assert logs(TableRef(path="s3a://lake/absent")) is None
