"""The samples of the source documents, as they stand there, and the project's own files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from tidemark.config.decoding import Format
from tidemark.config.reading.faults import ConfigurationFaults
from tidemark.config.reading.load import load_settings, parse_settings
from tidemark.config.settings import Settings
from tidemark.config.stream import Mode
from tidemark.transform import decode_plan

ROOT = Path(__file__).parents[2]

APPLICATION = """\
# Kafka-S3-Delta Connector - Simplified Kafka-Native Configuration
spring:
  application:
    name: kafka-s3-delta-connector-simple

  kafka:
    bootstrap-servers: localhost:9092
    consumer:
      group-id: kafka-s3-delta-connector
      auto-offset-reset: earliest
      enable-auto-commit: false  # CRITICAL: Manual acknowledgment only
      max-poll-interval-ms: 300000
      session-timeout-ms: 30000

kafka-native:
  idempotency:
    enabled: true

connector:
  topics:
    user-events:
      kafka-topic: "user.events.v1"
      supported-formats: ["JSON", "CSV", "AVRO"]
      destination:
        bucket: "data-lake"
        path: "events/user-events"
        partition-columns: ["cob_date"]
      processing:
        batch-size: 1000
        flush-interval: 60
        max-retries: 3
"""

APPLICATION_PROD = """\
spring:
  kafka:
    bootstrap-servers: ${KAFKA_BOOTSTRAP_SERVERS}
    consumer:
      group-id: ${KAFKA_CONSUMER_GROUP:kafka-s3-delta-connector}
      max-poll-records: 1000  # Higher throughput
      fetch-max-wait-ms: 1000

aws:
  s3:
    endpoint: ${S3_ENDPOINT}
    region: ${AWS_REGION:us-west-2}
    access-key-id: ${AWS_ACCESS_KEY_ID}
    secret-access-key: ${AWS_SECRET_ACCESS_KEY}
"""

PRODUCTION = {
    "KAFKA_BOOTSTRAP_SERVERS": "b-1:9092,b-2:9092",
    "S3_ENDPOINT": "https://s3.example.com",
    "AWS_ACCESS_KEY_ID": "the-key-id",
    "AWS_SECRET_ACCESS_KEY": "the-secret",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schemas").mkdir()
    columns = [{"name": "user_id", "type": "string"}, {"name": "cob", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "UserEvent", "fields": columns}
    (tmp_path / "schemas" / "user-events.avsc").write_text(json.dumps(schema))
    (tmp_path / "application.yml").write_text(APPLICATION)
    (tmp_path / "application-prod.yml").write_text(APPLICATION_PROD)
    return tmp_path


def test_the_application_sample_loads_as_it_stands(folder: Path) -> None:
    settings = load_settings(folder / "application.yml", environ={})
    assert settings.application_name == "kafka-s3-delta-connector-simple"
    assert settings.kafka.bootstrap_servers == "localhost:9092"
    consumer = settings.kafka.consumer
    assert consumer.group_id == "kafka-s3-delta-connector"
    assert (consumer.auto_offset_reset, consumer.enable_auto_commit) == ("earliest", False)
    assert (consumer.max_poll_interval_ms, consumer.session_timeout_ms) == (300_000, 30_000)
    stream = settings.stream("user-events")
    assert stream.kafka_topic == "user.events.v1"
    assert stream.supported_formats == (Format.JSON, Format.CSV, Format.AVRO)
    assert stream.dlq_topic == "user.events.v1-dlq"
    assert (stream.processing.batch_size, stream.processing.flush_interval) == (1000, 60)
    assert stream.processing.max_retries == 3
    assert stream.idempotency.mode is Mode.KAFKA_NATIVE
    assert str(settings.tables("user-events")["decoded"]) == "s3a://data-lake/events/user-events"


def test_the_application_sample_has_all_that_a_start_asks_for(folder: Path) -> None:
    settings = load_settings(folder / "application.yml", environ={})
    stream = settings.stream("user-events")
    plan = decode_plan(stream, base_dir=settings.config_dir)
    assert stream.destination is not None
    types = {f.name: f.dataType.simpleString() for f in plan.table_schema.fields}
    assert [types.get(c) for c in stream.destination.partition_columns] == ["date"]
    assert plan.cob is not None
    assert plan.cob.not_in_future


def test_the_production_sample_lies_over_the_application_sample(folder: Path) -> None:
    settings = load_settings(folder / "application.yml", target="prod", environ=PRODUCTION)
    assert settings.target == "prod"
    assert settings.kafka.bootstrap_servers == "b-1:9092,b-2:9092"
    consumer = settings.kafka.consumer
    assert (consumer.max_poll_records, consumer.fetch_max_wait_ms) == (1000, 1000)
    assert consumer.max_poll_interval_ms == 300_000
    assert (settings.s3.endpoint, settings.s3.region) == ("https://s3.example.com", "us-west-2")
    assert settings.s3.path_style
    assert settings.s3.secret_access_key is not None
    assert settings.s3.secret_access_key.get_secret_value() == "the-secret"


def test_every_variable_that_is_not_set_is_named_at_once(folder: Path) -> None:
    with pytest.raises(ConfigurationFaults) as raised:
        load_settings(folder / "application.yml", target="prod", environ={})
    faults = raised.value.faults
    assert [fault.key for fault in faults] == [
        "spring.kafka.bootstrap-servers",
        "aws.s3.endpoint",
        "aws.s3.access-key-id",
        "aws.s3.secret-access-key",
    ]
    assert [fault.line for fault in faults] == [3, 11, 13, 14]


def test_a_file_without_the_spring_root_means_the_same(folder: Path) -> None:
    lines = APPLICATION.replace("spring:\n", "").splitlines()
    inside = lines.index("kafka-native:")
    (folder / "application.yml").write_text(
        "\n".join([line.removeprefix("  ") for line in lines[:inside]] + lines[inside:])
    )
    bare = load_settings(folder / "application.yml", environ={})
    (folder / "application.yml").write_text(APPLICATION)
    assert bare == load_settings(folder / "application.yml", environ={})


def test_the_defaults_are_those_of_the_source_documents_when_keys_are_left_out(tmp_path: Path) -> None:
    settings = parse_settings(
        "kafka: {bootstrap-servers: 'localhost:9092'}\n"
        "connector: {topics: {a: {kafka-topic: a, schema: {ddl: x STRING}, "
        "destination: {bucket: b, path: p}}}}",
        root=tmp_path,
        environ={},
    )
    stream, consumer = settings.stream("a"), settings.kafka.consumer
    assert (
        stream.processing.batch_size,
        stream.processing.flush_interval,
        stream.processing.max_retries,
    ) == (
        1000,
        60,
        3,
    )
    assert (consumer.auto_offset_reset, consumer.max_poll_interval_ms, consumer.session_timeout_ms) == (
        "earliest",
        300_000,
        30_000,
    )
    assert not consumer.enable_auto_commit
    breaker = settings.breaker
    assert (breaker.failure_threshold, breaker.open_seconds, breaker.success_threshold) == (5, 60, 3)
    assert settings.kafka_native
    assert settings.s3.region == "us-west-2"
    assert (stream.idempotency.retention, stream.idempotency.cleanup_interval) == (24 * 3600, 60 * 60)
    assert stream.starting_offsets == "earliest"


@pytest.mark.parametrize("target", [None, "dev", "staging", "prod"])
def test_the_projects_own_files_have_no_fault(target: str | None) -> None:
    settings = load_settings(
        ROOT / "conf" / "tidemark.yml", target=target, environ={"KAFKA_BOOTSTRAP_SERVERS": "b:9092"}
    )
    assert settings.root == ROOT
    table = settings.tables("user-events")["decoded"]
    if target in (None, "dev"):
        assert table.path == str(ROOT / ".tidemark/lake/events/user-events")
    else:
        assert table.name == f"{target}.streaming.user_events"


def test_settings_survive_pickling(folder: Path) -> None:
    settings: Settings = load_settings(folder / "application.yml", environ={})
    assert pickle.loads(pickle.dumps(settings)) == settings
