"""Interpolation, layering, YAML scalars, table references and redaction."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tidemark.config.base import Section
from tidemark.config.decoding import AvroOptions, FieldOptions
from tidemark.config.destination import TableRef, table_ref
from tidemark.config.kafka import ConsumerSettings
from tidemark.config.reading.collisions import slug
from tidemark.config.reading.document import parse_document
from tidemark.config.reading.faults import ConfigurationFaults
from tidemark.config.reading.interpolation import Unset, interpolate
from tidemark.config.reading.load import load_settings, parse_settings
from tidemark.config.redaction import is_secret_name, masked_text, redacted
from tidemark.config.stream import DeadLetterOptions, Destination, Mode, Processing
from tidemark.contract.errors import UsageError

BASE = """\
kafka: {bootstrap-servers: 'localhost:9092'}
connector:
  topics:
    orders:
      kafka-topic: orders
      supported-formats: [JSON, CSV]
      schema: {ddl: a STRING}
      destination: {bucket: lake, path: orders}
      processing: {batch-size: 10, max-retries: 5}
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("${A}", "1"),
        ("x-${A}-${B}", "x-1-two"),
        ("${C:three}", "three"),
        ("${C:}", ""),
        ("${A:other}", "1"),
        ("${C:http://h:80/}", "http://h:80/"),
        ("${C:${D:${A}}}", "1"),
        ("$${A}", "${A}"),
        ("$A and {A}", "$A and {A}"),
        ("${R}", "${A}"),
        ("${EMPTY:default}", ""),
    ],
)
def test_a_placeholder_is_filled_from_the_environment_or_its_default(text: str, value: str) -> None:
    assert interpolate(text, {"A": "1", "B": "two", "R": "${A}", "EMPTY": ""}) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${NOPE}", "the environment variable NOPE is not set"),
        ("${A", "a `${` is not closed"),
        ("${not a name}", "`${not a name}` does not name"),
        ("${}", "`${}` does not name"),
    ],
)
def test_a_placeholder_that_cannot_be_filled_says_why(text: str, problem: str) -> None:
    with pytest.raises(Unset) as raised:
        interpolate(text, {})
    assert raised.value.problem.startswith(problem)


def test_a_misspelt_variable_is_reported_without_its_value() -> None:
    with pytest.raises(Unset) as raised:
        interpolate("${KAFKA_BOOTSTRAP_SERVER}", {"KAFKA_BOOTSTRAP_SERVERS": "hunter2"})
    assert raised.value.hint.startswith("KAFKA_BOOTSTRAP_SERVERS is set, did you mean that?")
    assert "hunter2" not in raised.value.hint


def test_scalars_are_read_as_yaml_1_2() -> None:
    text = (
        "{a: yes, b: off, c: 2024-01-15, d: 012, e: 1_000, f: 1.5, g: true, h: ~, i: 12:30, j: 1e3, k: '5'}"
    )
    values = parse_document(text, file="t", environ={}).values
    assert values == {
        "a": "yes", "b": "off", "c": "2024-01-15", "d": "012", "e": 1000, "f": 1.5, "g": True, "h": None,
        "i": "12:30", "j": 1000.0, "k": "5",
    }  # fmt: skip


def test_anchors_and_merge_keys_work_and_own_keys_win() -> None:
    text = "base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nagain: *b\n"
    values = parse_document(text, file="t", environ={}).values
    assert values["use"] == {"x": 1, "y": 3}
    assert values["again"] == {"x": 1, "y": 2}


def test_aliases_that_multiply_without_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ConfigurationFaults, match="aliases multiply without end"):
        parse_document("\n".join(lines), file="t", environ={})


def test_overrides_of_a_target_merge_sections_and_replace_values_and_lists(tmp_path: Path) -> None:
    (tmp_path / "tidemark.yml").write_text(BASE)
    (tmp_path / "tidemark.prod.yml").write_text(
        "connector:\n  topics:\n    orders:\n      supported-formats: [AVRO]\n"
        "      avro: {writer-schema: w.avsc}\n"
        "      processing: {batch-size: 20}\n"
        "      destination: {bucket:, path:, table: main.s.orders}\n"
    )
    (tmp_path / "w.avsc").write_text("{}")
    stream = load_settings(tmp_path / "tidemark.yml", target="prod", environ={}).stream("orders")
    assert [f.value for f in stream.supported_formats] == ["AVRO"]
    assert (stream.processing.batch_size, stream.processing.max_retries) == (20, 5)
    assert stream.destination == Destination(table="main.s.orders")


def test_an_override_without_a_value_takes_a_stream_away(tmp_path: Path) -> None:
    (tmp_path / "tidemark.yml").write_text(
        BASE + "    more: {kafka-topic: m, schema: {ddl: a INT}, destination: {table: m}}\n"
    )
    (tmp_path / "tidemark.prod.yml").write_text("connector: {topics: {orders: }}")
    assert set(load_settings(tmp_path / "tidemark.yml", target="prod", environ={}).streams) == {"more"}


def test_overrides_of_the_caller_win_as_sections_or_dotted_keys(tmp_path: Path) -> None:
    settings = parse_settings(
        BASE,
        root=tmp_path,
        environ={},
        overrides={
            "kafka.bootstrap-servers": "other:1",
            "connector": {"topics": {"orders": {"strict": False}}},
        },
    )
    assert settings.kafka.bootstrap_servers == "other:1"
    assert not settings.stream("orders").strict
    with pytest.raises(ConfigurationFaults) as raised:
        parse_settings(BASE, root=tmp_path, environ={}, overrides={"kafka.bootstrap-servers": "nowhere"})
    assert [(f.file, f.key) for f in raised.value.faults] == [("overrides", "kafka.bootstrap-servers")]


def test_the_toggle_gives_streams_their_mode_unless_they_name_one(tmp_path: Path) -> None:
    off = BASE + "kafka-native: {idempotency: {enabled: false}}\n"
    assert (
        parse_settings(BASE, root=tmp_path, environ={}).stream("orders").idempotency.mode is Mode.KAFKA_NATIVE
    )
    assert (
        parse_settings(off, root=tmp_path, environ={}).stream("orders").idempotency.mode is Mode.FINGERPRINT
    )
    own = off.replace("processing:", "idempotency: {mode: merge}\n      processing:")
    assert parse_settings(own, root=tmp_path, environ={}).stream("orders").idempotency.mode is Mode.MERGE


def test_starting_offsets_are_the_consumers_unless_the_stream_names_them(tmp_path: Path) -> None:
    latest = BASE.replace("'localhost:9092'", "'localhost:9092', consumer: {auto-offset-reset: latest}")
    assert parse_settings(latest, root=tmp_path, environ={}).stream("orders").starting_offsets == "latest"


def test_relative_folders_lie_under_the_project_and_schemas_next_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a.ddl").write_text("a INT")
    text = BASE.replace("bucket: lake", "bucket: ./lake").replace("{ddl: a STRING}", "{file: a.ddl}")
    (tmp_path / "conf" / "tidemark.yml").write_text(text)
    settings = load_settings(tmp_path / "conf" / "tidemark.yml", environ={})
    assert settings.tables("orders") == {"decoded": TableRef(path=f"{tmp_path}/lake/orders")}
    assert settings.checkpoint_root == f"{tmp_path}/.tidemark/checkpoints"
    assert settings.state_dir == tmp_path / ".tidemark"
    assert settings.path_of("a.ddl").is_file()


def test_an_unknown_stream_names_the_ones_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean orders\?"):
        parse_settings(BASE, root=tmp_path, environ={}).stream("order")


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        (Destination(bucket="lake", path="a/b"), "s3a://lake/a/b"),
        (Destination(bucket="lake/", path="/a/b/"), "s3a://lake/a/b"),
        (Destination(bucket="/data//lake/", path="a"), "/data/lake/a"),
        (Destination(bucket=".tidemark/lake", path="a"), "/project/.tidemark/lake/a"),
        (Destination(bucket="../lake", path="a"), "/lake/a"),
        (Destination(bucket="/", path="a"), "/a"),
        (Destination(bucket="s3a://lake/base", path="a"), "s3a://lake/base/a"),
        (Destination(bucket="abfss://c@acc.dfs.example.net", path="a"), "abfss://c@acc.dfs.example.net/a"),
        (Destination(bucket="file:///data", path="a"), "file:/data/a"),
        (Destination(bucket="FILE:/data/", path="./a"), "file:/data/a"),
        (Destination(bucket="dbfs:///Volumes//c", path="a"), "dbfs:/Volumes/c/a"),
        (Destination(bucket="/data/../lake", path="./a//b/."), "/lake/a/b"),
        (Destination(bucket="//data", path="a"), "/data/a"),
        (Destination(bucket=".", path="a"), "/project/a"),
        (Destination(bucket="lake//base", path="a//b"), "s3a://lake/base/a/b"),
        (Destination(bucket="s3a://lake//base/./", path="a"), "s3a://lake/base/a"),
        (Destination(bucket="/Volumes/c/s/v", path="a"), "/Volumes/c/s/v/a"),
    ],
)
def test_a_bucket_is_an_s3_bucket_or_a_folder(destination: Destination, expected: str) -> None:
    assert table_ref(destination, root=Path("/project")).path == expected


def test_buckets_are_reached_by_the_platforms_scheme() -> None:
    destination = Destination(bucket="lake", path="a")
    assert table_ref(destination, root=Path("/"), scheme="s3").path == "s3://lake/a"


@pytest.mark.parametrize(
    ("table", "sql", "dlq"),
    [
        (TableRef(path="/x/a`b"), "delta.`/x/a``b`", "delta.`/x/a``b_dlq`"),
        (TableRef(path="/x/a/"), "delta.`/x/a/`", "delta.`/x/a_dlq`"),
        (TableRef(name="orders"), "`orders`", "`orders_dlq`"),
        (TableRef(name="main.`odd.schema`.`or``ders`"), "`main`.`odd.schema`.`or``ders`",
         "`main`.`odd.schema`.`or``ders_dlq`"),
    ],
)  # fmt: skip
def test_a_table_is_quoted_for_sql_and_has_a_sibling_for_dead_letters(
    table: TableRef, sql: str, dlq: str
) -> None:
    assert table.sql == sql
    assert table.dlq.sql == dlq
    assert pickle.loads(pickle.dumps(table)) == table


@pytest.mark.parametrize("name", ["", "a.", ".a", "a..b", "a b", "a.b.c.d", "`a"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a table name"):
        table_ref(Destination(table=name), root=Path("/"))


def test_two_spellings_of_one_table_have_one_identity() -> None:
    assert TableRef(path="s3a://b//x/").identity == TableRef(path="s3://b/x").identity
    assert TableRef(path="file:/a/b").identity == TableRef(path="/a//b/").identity
    assert TableRef(name="Main.S.`T`").identity == TableRef(name="main.s.t").identity
    assert TableRef(path="s3a://b/x").identity != TableRef(path="s3a://b/X").identity


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("password", True),
        ("sasl.jaas.config", True),
        ("secret-access-key", True),
        ("access-key-id", True),
        ("Authorization", True),
        ("ssl.key.password", True),
        ("service-credential", False),
        ("key-file", False),
        ("group-id", False),
        ("message_key", False),
        ("partition", False),
    ],
)
def test_names_that_hold_secrets_are_known(name: str, *, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_secrets_inside_texts_are_masked_and_the_rest_is_kept() -> None:
    text = "postgresql://app:hunter2@db:5432/x password='hunter2' Bearer hunter2hunter2 and http://h/p?token=hunter2"
    shown = masked_text(text)
    assert "hunter2" not in shown
    assert "postgresql://app:********@db:5432/x" in shown
    assert masked_text("broker localhost:9092 at s3a://lake/a@b") == "broker localhost:9092 at s3a://lake/a@b"


def test_a_masked_mapping_keeps_its_shape() -> None:
    value = {
        "a": {"password": "x", "user": "u"},
        "secrets": {"one": "x", "flag": True},
        "n": None,
        "l": [1, "b"],
    }
    assert redacted(value) == {
        "a": {"password": "********", "user": "u"},
        "secrets": {"one": "********", "flag": True},
        "n": None,
        "l": [1, "b"],
    }


def test_a_streams_folder_name_is_plain() -> None:
    assert slug("Orders.EU_v2") == "orders-eu-v2"


@pytest.mark.parametrize(
    ("given", "queries", "seconds"),
    [
        ({}, 1, 0.5),
        ({}, 10, 0.5),
        ({}, 20, 1.0),
        ({}, 500, 25.0),
        ({}, 5000, 60.0),
        ({"flush-interval": 1}, 100, 1.0),
        ({"flush-interval": 0.2}, 1, 0.2),
        ({"flush-interval": 0.0004}, 1, 0.05),
        ({"poll-interval": 0.1}, 100, 0.1),
        ({"poll-interval": 0}, 1, 0.0),
    ],
)
def test_queries_of_one_application_poll_twenty_times_a_second_in_all_by_default(
    given: dict[str, float], queries: int, seconds: float
) -> None:
    assert Processing.model_validate(given).seconds_between_polls(queries) == seconds


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("flush-interval", 1e17, "ten years"),
        ("poll-interval", 1e306, "ten years"),
        ("retry-deadline", 1e10, "ten years"),
        ("max-batch-size", 10**30, "9223372036854775807"),
        ("max-partitions", 2**31, "2147483647"),
    ],
)
def test_a_number_that_no_timer_and_no_counter_holds_is_refused(key: str, value: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Processing.model_validate({key: value})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        (DeadLetterOptions, "publish-timeout", 2_147_484),
        (DeadLetterOptions, "retention", 2**62),
        (AvroOptions, "registry-timeout", 2_147_484),
        (ConsumerSettings, "fetch-max-wait-ms", 300_001),
    ],
)
def test_a_time_that_a_client_of_kafka_or_http_refuses_is_refused(
    section: type[Section], key: str, value: int
) -> None:
    with pytest.raises(ValueError, match="less than or equal"):
        section.model_validate({key: value})
    section.model_validate({key: 30_000})


@pytest.mark.parametrize("default", [-999_999_999.0, 500_000_000.25, 10**30])
def test_the_default_of_a_field_is_no_time_and_may_be_as_large_as_its_type(default: float) -> None:
    assert FieldOptions.model_validate({"default": default}).default == default
