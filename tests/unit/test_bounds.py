"""Nothing waits for ever: every client of an outside service has a bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemark.config.reading.load import parse_settings
from tidemark.config.settings import Settings
from tidemark.platform.open_session import s3_options
from tidemark.platform.spark_conf import local_conf
from tidemark.source.clients import admin_options
from tidemark.source.topics import KafkaAdmin


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    place = {"bucket": "lake", "path": "orders"}
    stream = {"kafka-topic": "orders", "schema": {"ddl": "id INT"}, "destination": place}
    text = {"kafka": {"bootstrap-servers": "b:9092"}, "connector": {"topics": {"orders": stream}}}
    return parse_settings(json.dumps(text), root=tmp_path)


@pytest.mark.guarantee("fault tolerance: slow answers")
def test_a_silent_s3_is_given_up_within_minutes(settings: Settings) -> None:
    """Each of S3A's tries is so many of the SDK's, each as long as a connection may be silent."""
    bounds = {name.removeprefix("fs.s3a."): value for name, value in s3_options(settings).items()}
    silent = int(bounds["connection.timeout"].removesuffix("s"))
    tries = int(bounds["attempts.maximum"]) * (int(bounds["retry.limit"]) + 1)
    assert 60 <= silent * tries <= 15 * 60
    assert int(bounds["connection.establish.timeout"].removesuffix("s")) <= 30
    assert int(bounds["retry.throttle.limit"]) <= 5


@pytest.mark.guarantee("bad day: a silent broker")
def test_a_silent_broker_is_given_up_within_a_minute(settings: Settings) -> None:
    assert int(admin_options(settings.kafka)["socket.timeout.ms"]) <= 60_000
    assert KafkaAdmin(settings.kafka).timeout <= 30
    assert settings.stream("orders").dead_letter.publish_timeout <= 60


def test_a_query_that_hangs_does_not_hold_up_the_end(settings: Settings) -> None:
    assert local_conf([])["spark.sql.streaming.stopTimeout"] == "60s"


def test_retries_end_within_their_deadline(settings: Settings) -> None:
    assert settings.stream("orders").processing.retry_deadline <= 600
    assert settings.stream("orders").avro.registry_timeout <= 30
