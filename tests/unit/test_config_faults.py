"""All faults of a configuration are reported at once: where, what, and what to do."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tidemark.config.reading.faults import ConfigurationFaults, Fault
from tidemark.config.reading.load import load_settings, parse_settings
from tidemark.contract.errors import ConfigError

KAFKA = "kafka:\n  bootstrap-servers: localhost:9092\n"
STREAM = "kafka-topic: t, schema: {ddl: a STRING}, destination: {bucket: b, path: p}"


def faults_of(text: str, root: Path, **environ: str) -> tuple[Fault, ...]:
    with pytest.raises(ConfigurationFaults) as raised:
        parse_settings(text, root=root, environ=environ)
    return raised.value.faults


def one_stream(more: str = "", *, base: str = STREAM) -> str:
    return f"{KAFKA}connector:\n  topics:\n    a: {{{base}{', ' if more else ''}{more}}}\n"


def two_streams(first: str, second: str, names: tuple[str, str] = ("a", "b")) -> str:
    return (
        f"{KAFKA}connector:\n  topics:\n    {names[0]}: {{schema: {{ddl: x INT}}, {first}}}\n"
        f"    {names[1]}: {{schema: {{ddl: x INT}}, {second}}}\n"
    )


def test_all_faults_are_reported_at_once_each_with_its_line(tmp_path: Path) -> None:
    text = """\
kafka:
  bootstrap-servers: localhost
  consumer:
    enable-auto-commit: true
    grup-id: x
    max-poll-records: many
connector:
  topics:
    orders:
      kafka-topic: orders v1
      supported-formats: [JSON, XML]
      batch-size: 10
      processing:
        max-retries: -1
      destination: {bucket: b, path: p, table: c.s.t}
    empty:
nonsense: 1
"""
    found = {(f.line, f.key) for f in faults_of(text, tmp_path)}
    topics = "connector.topics"
    assert found == {
        (2, "kafka.bootstrap-servers"),
        (4, "kafka.consumer.enable-auto-commit"),
        (5, "kafka.consumer.grup-id"),
        (6, "kafka.consumer.max-poll-records"),
        (9, f"{topics}.orders.schema"),
        (10, f"{topics}.orders.kafka-topic"),
        (11, f"{topics}.orders.supported-formats[1]"),
        (12, f"{topics}.orders.batch-size"),
        (14, f"{topics}.orders.processing.max-retries"),
        (15, f"{topics}.orders.destination.bucket"),
        (15, f"{topics}.orders.destination.path"),
        (16, f"{topics}.empty.kafka-topic"),
        (16, f"{topics}.empty.destination"),
        (17, "nonsense"),
    }
    assert all(f.file == "configuration" and f.problem for f in faults_of(text, tmp_path))


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("kafka_topic: u", "write `kafka-topic`"),
        ("kafkaTopic: u", "write `kafka-topic`"),
        ("kafka-topc: u", "did you mean `kafka-topic`?"),
        ("batch-size: 5", "`batch-size` belongs under connector.topics.<name>.processing"),
        ("max-retrys: 5", "did you mean `max-retries`? It belongs under connector.topics.<name>.processing"),
        ("processing.batch-size: 5", "write the parts of a dotted key as sections, one inside the other"),
    ],
)
def test_an_unknown_key_says_what_was_meant(tmp_path: Path, key: str, hint: str) -> None:
    (fault,) = faults_of(one_stream(key), tmp_path)
    assert fault.problem == "unknown key"
    assert fault.hint.startswith(hint)


@pytest.mark.guarantee("case: replay-01")
@pytest.mark.parametrize(
    ("more", "key", "problem"),
    [
        ("processing: {batch-size: 0}", "processing.batch-size", "is `0`, must be at least 1"),
        ("processing: {flush-interval: 60s}", "processing.flush-interval", "is `60s`, must be a number"),
        ("processing: {flush-interval: .inf}", "processing.flush-interval", "is `.inf`, must be a number"),
        ("processing: {batch-size: 2000000}", "processing", "max-batch-size (1000000) is below batch-size"),
        (
            "processing: {min-partitions: 4, max-partitions: 2}",
            "processing",
            "min-partitions and max-partitions exclude",
        ),
        ("processing: {poll-interval: 61}", "processing.poll-interval", "poll-interval (61 s) is above"),
        ("processing-version: 1.0", "processing-version", "is `1.0`, must be text"),
        ("strict: perhaps", "strict", "is `perhaps`, must be true or false"),
        ("processing: fast", "processing", "is `fast`, must be a section of keys"),
        ("supported-formats: JSON", "supported-formats", "is `JSON`, must be a list"),
        ("supported-formats: []", "supported-formats", "must not be empty"),
        ("supported-formats: [JSON, json]", "supported-formats", "names a format twice"),
        ("unknown-fields: keeep", "unknown-fields", "is `keeep`, must be one of ignore, keep, reject"),
        ("rules: [{name: a}]", "rules[0].expr", "is missing"),
        ("rules: [{name: a, expr: x}, {name: a, expr: y}]", "rules", "2 rules are named a"),
        ("fields: {x: {required: true, default: 1}}", "fields.x", "required and default contradict"),
        ("enrich: {stream_offset: '1'}", "enrich.stream_offset", "is a column that the pipeline adds"),
        ("csv: {quote: ','}", "csv.quote", "is the delimiter too"),
        ("csv: {escape: ','}", "csv.escape", "is the delimiter too"),
        ('csv: {delimiter: "\\n"}', "csv.delimiter", "is a line end"),
        ("avro: {registry: 'http://r'}", "avro.registry", "names schemas by id, but framing: none"),
        ("dead-letter: {topic: t}", "dead-letter.topic", "is the topic itself"),
        ("idempotency: {merge-keys: [x]}", "idempotency.merge-keys", "contradicts mode kafka-native"),
        ("idempotency: {mode: merge, order-by: x}", "idempotency.order-by", "orders the records"),
    ],
)
def test_a_value_that_cannot_be_says_why(tmp_path: Path, more: str, key: str, problem: str) -> None:
    (fault,) = faults_of(one_stream(more), tmp_path)
    assert fault.key == f"connector.topics.a.{key}"
    assert fault.problem.startswith(problem)


@pytest.mark.parametrize(
    ("base", "key", "problem"),
    [
        ("kafka-topic: t", "destination", "is missing: the stream lands nowhere"),
        ("kafka-topic: t, destination: {bucket: b, path: p}", "schema", "is missing"),
        (
            "kafka-topic: t, schema: {ddl: x INT, file: a.ddl}, destination: {bucket: b, path: p}",
            "schema",
            "ddl and file contradict",
        ),
        ("kafka-topic: t, schema: {ddl: x INT}, destination: {bucket: b}", "destination.path", "is missing"),
        (
            "kafka-topic: t, schema: {ddl: x INT}, destination: {bucket: b, path: ../x}",
            "destination.path",
            "leaves its bucket",
        ),
        (
            "kafka-topic: t, schema: {ddl: x INT}, destination: {table: a.b.c.d}",
            "destination.table",
            "is not a table name",
        ),
        (
            "kafka-topic: t, schema: {ddl: x INT}, destination: {table: x, partition-columns: [p, P]}",
            "destination.partition-columns",
            "names p twice",
        ),
        ("kafka-topic: '..', landing: {destination: {table: x}}", "kafka-topic", "is not a valid topic name"),
    ],
)
def test_a_stream_that_does_not_say_where_or_what_is_a_fault(
    tmp_path: Path, base: str, key: str, problem: str
) -> None:
    (tmp_path / "a.ddl").write_text("x INT")
    (fault,) = faults_of(one_stream(base=base), tmp_path)
    assert fault.key == f"connector.topics.a.{key}"
    assert fault.problem.startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            two_streams(
                "kafka-topic: t, destination: {bucket: b, path: x}",
                "kafka-topic: u, destination: {bucket: b, path: /x/}",
            ),
            "the table s3a://b/x is the table of stream a already",
        ),
        (
            two_streams(
                "kafka-topic: t, destination: {bucket: ., path: ./same}",
                "kafka-topic: u, destination: {bucket: ./, path: same/.}",
            ),
            "the table /",
        ),
        (
            two_streams(
                "kafka-topic: t, destination: {bucket: 'file:///d', path: x}",
                "kafka-topic: u, destination: {bucket: /d//, path: x}",
            ),
            "the table /d/x is the table of stream a already",
        ),
        (
            one_stream(base="kafka-topic: t, schema: {ddl: x INT}, destination: {bucket: ./d, path: ./}"),
            "must not be empty",
        ),
        (
            one_stream(
                base="kafka-topic: t, schema: {ddl: x INT}, destination: {table: d, statistics: [x],"
                " properties: {delta.dataSkippingNumIndexedCols: '3'}}"
            ),
            "contradicts statistics: both say which columns have statistics",
        ),
        (
            one_stream(
                base="kafka-topic: t, schema: {ddl: x INT}, destination: {table: d,"
                " properties: {delta.IsolationLevel: WriteSerializable}}"
            ),
            "is refused: the ledger needs Serializable",
        ),
        (
            two_streams(
                "kafka-topic: t, destination: {table: main.s.x}",
                "kafka-topic: t, destination: {table: MAIN.s.x}",
            ),
            "the table MAIN.s.x is the table of stream a already, and both read t: every record would",
        ),
        (
            two_streams(
                "kafka-topic: t, destination: {table: x}", "kafka-topic: u, destination: {table: x_dlq}"
            ),
            "the table x_dlq is the dead letters' table of stream a already",
        ),
        (
            two_streams(
                "kafka-topic: t, destination: {bucket: b, path: x}",
                "kafka-topic: u, destination: {bucket: b, path: x/y}",
            ),
            "the table s3a://b/x/y and the table of stream a lie inside each other",
        ),
        (
            two_streams(
                "kafka-topic: t, destination: {table: x}", "kafka-topic: t-dlq, destination: {table: y}"
            ),
            "dead letters would go to t-dlq, which the stream b reads as records",
        ),
        (
            two_streams(
                "kafka-topic: t, destination: {table: x}",
                "kafka-topic: u, destination: {table: y}",
                names=("orders.eu", "orders-eu"),
            ),
            "and orders.eu would share one checkpoint folder, orders-eu",
        ),
        (
            one_stream(base="kafka-topic: t, schema: {ddl: x INT}, destination: {bucket: ./d, path: x}")
            + "checkpoint-root: d/x/checkpoints\n",
            "lies inside the table of stream a",
        ),
        (
            one_stream("idempotency: {mode: kafka-native}")
            + "kafka-native: {idempotency: {enabled: false}}\n",
            "kafka-native contradicts kafka-native.idempotency.enabled: false",
        ),
        (
            one_stream() + "spring: {kafka: {bootstrap-servers: 'other:9092'}}\n",
            "contradicts spring.kafka.bootstrap-servers in line 6, which has another value",
        ),
        (
            one_stream() + "listener: {topics: [t-dlq], group-id: g}\n",
            "names t-dlq, the DLQ topic of the stream a",
        ),
        (
            one_stream() + "listener: {topics: [t], group-id: tidemark}\n",
            "is the group that the marks of stream a are committed to",
        ),
        (
            one_stream() + "metrics: {host: 0.0.0.0}\n",
            "`host` can be reached from outside, so `token` must be set: `0.0.0.0`",
        ),
        (
            one_stream() + "reports: {dlq-timeout: 400}\n",
            "dlq-timeout (400 s) must be below max-poll-interval (300 s)",
        ),
        (
            one_stream().replace(
                KAFKA, KAFKA + "  consumer: {max-poll-interval-ms: 20000, session-timeout-ms: 10000}\n"
            )
            + "listener: {topics: [other], group-id: g}\n",
            "with the defaults of kafka.consumer: dlq-timeout (30 s) must be below max-poll-interval (20 s)",
        ),
        (
            one_stream().replace(KAFKA, KAFKA + "  consumer: {max-poll-interval-ms: 2147483647}\n")
            + "listener: {topics: [other], group-id: g}\n",
            "with the defaults of kafka.consumer: Input should be less than or equal to 86400",
        ),
        (one_stream() + "aws: {s3: {access-key-id: x}}\n", "is missing, and access-key-id is set"),
        (
            one_stream().replace(KAFKA, KAFKA + "  properties: {enable.auto.commit: true}\n"),
            "the client option enable.auto.commit has a key of its own",
        ),
        (
            one_stream().replace(KAFKA, KAFKA + "  security: {protocol: SASL_SSL, sasl: {username: u}}\n"),
            "is missing, and protocol is SASL_SSL",
        ),
        (
            one_stream().replace(KAFKA, KAFKA + "  security: {sasl: {username: u, password: p}}\n"),
            "contradicts protocol PLAINTEXT, which has no user",
        ),
        (
            one_stream().replace(KAFKA, KAFKA + "  consumer: {max-poll-interval-ms: 100}\n"),
            "max-poll-interval-ms (100) is below session-timeout-ms (30000), which Kafka refuses",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_a_fault(tmp_path: Path, text: str, problem: str) -> None:
    assert [f for f in faults_of(text, tmp_path) if f.problem.startswith(problem)]


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        ("'a:1,b,c:2'", "server 2 of 3 is not `host:port`, such as `localhost:9092`: `b`"),
        ("['a:1', 'b:99999']", "server 2 of 2 is not `host:port`, such as `localhost:9092`: `b:99999`"),
        ("'[fe80::1%]:9092'", "server is not `host:port`, such as `localhost:9092`: `[fe80::1%]:9092`"),
        ("'${SERVERS}'", "server 2 of 2 is not `host:port`, such as `localhost:9092`"),
    ],
)
def test_the_server_that_is_wrong_is_named(tmp_path: Path, servers: str, problem: str) -> None:
    text = one_stream().replace("localhost:9092", servers)
    (fault,) = faults_of(text, tmp_path, SERVERS="a:1,of-the-environment")
    assert fault.problem == problem


def test_an_address_may_name_its_interface(tmp_path: Path) -> None:
    text = one_stream().replace("localhost:9092", "'[fe80::1%eth0]:9092,[::1]:9093'")
    settings = parse_settings(text, root=tmp_path, environ={})
    assert settings.kafka.bootstrap_servers == "[fe80::1%eth0]:9092,[::1]:9093"


def test_a_key_that_stands_twice_is_a_fault(tmp_path: Path) -> None:
    (fault,) = faults_of(KAFKA + "  bootstrap-servers: other:9092\n" + one_stream()[len(KAFKA) :], tmp_path)
    assert (fault.line, fault.problem) == (3, "stands twice in its section, first in line 2")


def test_two_streams_of_one_topic_into_two_tables_are_no_fault(tmp_path: Path) -> None:
    text = two_streams("kafka-topic: t, destination: {table: x}", "kafka-topic: t, destination: {table: y}")
    assert set(parse_settings(text, root=tmp_path, environ={}).streams) == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "problem", "line"),
    [
        (b"", "is empty", 0),
        (b"# nothing but this\n", "is empty", 0),
        (b"- a\n- b\n", "holds a list where sections such as `kafka:` are expected", 1),
        (b"hello", "holds a single value where sections", 1),
        (b"kafka:\n  a: [1\n", "is not YAML", 3),
        (b"kafka:\n\tx: 1\n", "is not YAML", 2),
        (b"a: b: c\n", "is not YAML", 1),
        (b"a: 1\n---\nb: 2\n", "holds several documents", 2),
        (b"a: \xff\xfe", "is not UTF-8 text (byte 3)", 0),
        (b"a: &x [*x]\n", "an alias contains itself", 1),
    ],
)
def test_a_file_that_is_no_configuration_gets_one_clear_message(
    tmp_path: Path, content: bytes, problem: str, line: int
) -> None:
    (tmp_path / "t.yml").write_bytes(content)
    with pytest.raises(ConfigurationFaults) as raised:
        load_settings(tmp_path / "t.yml", environ={})
    (fault,) = raised.value.faults
    assert fault.problem.startswith(problem)
    assert fault.line == line
    assert fault.hint


def test_a_file_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    (tmp_path / "tidemark.yml").write_text("x")
    with pytest.raises(ConfigError, match=r"there is no such file → the folder has tidemark\.yml"):
        load_settings(tmp_path / "tidemrak.yml", environ={})
    with pytest.raises(ConfigError, match="is a folder"):
        load_settings(tmp_path, environ={})


def test_a_schema_file_that_is_not_there_names_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "orders.ddl").write_text("x INT")
    base = "kafka-topic: t, schema: {file: order.ddl}, destination: {table: x}"
    (fault,) = faults_of(one_stream(base=base), tmp_path)
    assert fault.problem == "there is no file order.ddl next to the configuration"
    assert fault.hint == "did you mean orders.ddl?"


def test_a_target_without_a_file_says_which_there_are(tmp_path: Path) -> None:
    (tmp_path / "tidemark.yml").write_text(one_stream())
    (tmp_path / "tidemark.prod.yml").write_text("logging: {level: debug}")
    assert load_settings(tmp_path / "tidemark.yml", target="prod", environ={}).logging.level == "DEBUG"
    with pytest.raises(ConfigError, match=r"target prd has no file .* there are tidemark\.prod\.yml"):
        load_settings(tmp_path / "tidemark.yml", target="prd", environ={})
    (tmp_path / "tidemark-prod.yml").write_text("logging: {level: info}")
    with pytest.raises(ConfigError, match="target prod has two files"):
        load_settings(tmp_path / "tidemark.yml", target="prod", environ={})


def test_a_fault_in_the_overrides_is_placed_in_their_file(tmp_path: Path) -> None:
    (tmp_path / "tidemark.yml").write_text(one_stream())
    (tmp_path / "tidemark.prod.yml").write_text("spring:\n  kafka:\n    consumer: {max-poll-records: 0}\n")
    with pytest.raises(ConfigurationFaults) as raised:
        load_settings(tmp_path / "tidemark.yml", target="prod", environ={})
    (fault,) = raised.value.faults
    assert fault.file.endswith("tidemark.prod.yml")
    assert (fault.line, fault.key) == (3, "spring.kafka.consumer.max-poll-records")


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (one_stream() + "aws: {s3: {endpoint: 'http://user:hunter2@store'}}\n", {}),
        (one_stream() + "aws: {s3: {secret-access-key: [hunter2]}}\n", {}),
        (one_stream() + "metrics: {port: '${PORT}'}\n", {"PORT": "hunter2"}),
        (one_stream() + "metrics: {host: '${HOST}'}\n", {"HOST": "hunter2"}),
        (one_stream().replace("localhost:9092", "['${A}']"), {"A": "hunter2"}),
        (
            one_stream().replace(KAFKA, KAFKA + "  security: {protocol: SSL, tls: {ca-file: '${KEY}'}}\n"),
            {"KEY": "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"},
        ),
        (
            one_stream().replace(KAFKA, KAFKA + "  security: {protocol: SSL, tls: {ca-file: '${KEY}'}}\n"),
            {"KEY": "hunter2"},
        ),
        (
            one_stream(base="kafka-topic: t, schema: {ddl: x INT}, destination: {table: '${T}'}"),
            {"T": "a.hunter2.c.d"},
        ),
        (one_stream("kafka-topik: 'password=hunter2'"), {}),
        (
            one_stream().replace(KAFKA, KAFKA + "  security: {sasl: {password: hunter2}, protocol: NONE}\n"),
            {},
        ),
        (one_stream().replace("localhost:9092", "'sasl://u:hunter2@broker'"), {}),
        (one_stream("avro: {registry-timeout: 'http://u:hunter2@registry'}"), {}),
    ],
)
def test_a_secret_is_never_in_a_fault(tmp_path: Path, text: str, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigurationFaults) as raised:
        parse_settings(text, root=tmp_path, environ=environ)
    assert "hunter2" not in f"{raised.value} {raised.value!r} {raised.value.faults!r}"


def test_settings_never_show_a_secret(tmp_path: Path) -> None:
    text = one_stream().replace(
        KAFKA,
        KAFKA + "  security: {protocol: SASL_SSL, sasl: {username: u, password: hunter2}}\n"
        "  properties: {sasl.oauthbearer.client.secret: hunter2}\n",
    )
    text += "aws: {s3: {access-key-id: hunter2, secret-access-key: hunter2}}\n"
    text += "reports: {database: 'postgresql://app:hunter2@db/reports'}\n"
    settings = parse_settings(text, root=tmp_path, environ={})
    assert "hunter2" not in f"{settings!r} {settings.redacted()!r}"
    assert settings.redacted()["kafka"]["security"]["sasl"]["username"] == "u"


def test_the_error_survives_pickling(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationFaults) as raised:
        parse_settings("nonsense: 1", root=tmp_path, environ={})
    again = pickle.loads(pickle.dumps(raised.value))
    assert again.faults == raised.value.faults
    assert again.exit_code == 2
