"""`tidemark check --quick` and `tidemark doctor`: neither starts Spark here."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tidemark.cli.app import main

CONFIGURATION = """\
kafka:
  bootstrap-servers: localhost:{port}
connector:
  topics:
    orders:
      kafka-topic: orders
      schema:
        file: orders.ddl
      fields:
        when: {{epoch: ms}}
      rules:
        - {{name: positive, expr: amount > 0}}
      destination:
        bucket: ./lake
        path: orders
        partition-columns: [cob]
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "orders.ddl").write_text("id STRING NOT NULL, amount DECIMAL(10,2), cob DATE, when TIMESTAMP")
    (tmp_path / "tidemark.yml").write_text(CONFIGURATION.format(port=free_port()))
    return tmp_path / "tidemark.yml"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_right_configuration_has_no_fault(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--quick", "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    assert f"✓ orders: orders → decoded {config.parent}/lake/orders" in shown
    assert "No fault. Rules and enrichment were not analysed." in shown


@pytest.mark.guarantee("case: time-03")
def test_a_table_is_not_partitioned_by_a_moment(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace("[cob]", "[cob, When]"))
    code, shown = answer(capsys, "check", "--quick", "--config", str(config))
    (fault,) = shown["faults"]
    assert (code, fault["key"]) == (2, "connector.topics.orders.destination.partition-columns")
    assert fault["problem"].startswith("when is a TIMESTAMP")
    assert "to_date" in fault["hint"]


def test_a_right_configuration_is_printed_for_a_program(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = answer(capsys, "check", "--quick", "--config", str(config))
    assert (code, result["ok"], result["faults"], result["expressions_checked"]) == (0, True, [], False)
    assert result["configuration"]["connector"]["topics"]["orders"]["processing"]["max-retries"] == 3


def test_faults_of_the_schema_are_placed_at_the_key_that_causes_them(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "orders.ddl").write_text("id STRING NOT NULL, amount DECIMAL(10,2), when STRING")
    code, result = answer(capsys, "check", "--quick", "--config", str(config))
    assert (code, result["ok"]) == (2, False)
    (fault,) = result["faults"]
    assert (fault["line"], fault["key"]) == (10, "connector.topics.orders.fields.when.epoch")


def test_a_column_that_the_table_would_not_have_is_a_fault(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text().replace("[cob]", "[cob_day]"))
    code, result = answer(capsys, "check", "--quick", "--config", str(config))
    (fault,) = result["faults"]
    assert code == 2
    assert (fault["line"], fault["problem"]) == (16, "the table has no column cob_day")
    assert fault["hint"].startswith("it has id, amount, cob, when")


def test_a_schema_that_cannot_be_read_is_a_fault(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config.parent / "orders.ddl").write_text("id STRING amount")
    code, result = answer(capsys, "check", "--quick", "--config", str(config))
    (fault,) = result["faults"]
    assert (code, fault["line"], fault["key"]) == (2, 8, "connector.topics.orders.schema.file")


def findings(capsys: pytest.CaptureFixture[str], config: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    code, result = answer(capsys, "doctor", "--config", str(config))
    return code, {finding["name"]: finding for finding in result["findings"]}


def test_the_doctor_says_what_is_not_well_and_how_to_fix_it(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = findings(capsys, config)
    assert code == 1
    assert all(found[name]["ok"] for name in ("python", "java", "configuration", "schemas", "table orders"))
    assert found["pyspark"]["detail"] == "4.2.0"
    assert not found["broker"]["ok"]
    assert "does not answer" in found["broker"]["detail"]
    assert found["broker"]["fix"] == "tidemark broker start"
    assert not (config.parent / "lake").exists()


def test_the_doctor_finds_a_file_where_a_folder_is_needed(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "lake").write_text("in the way")
    code, found = findings(capsys, config)
    assert code == 1
    assert found["table orders"]["detail"] == f"{config.parent}/lake is a file where a folder is needed"


def test_the_doctor_stops_at_a_faulty_configuration_and_names_the_command(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("nonsense: 1")
    code, found = findings(capsys, config)
    assert (code, list(found)[-1]) == (1, "configuration")
    assert found["configuration"]["fix"] == f"tidemark check --config {config}"


def test_the_doctor_names_the_command_that_installs_java_when_there_is_none(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(config.parent))
    monkeypatch.setenv("PATH", str(config.parent))
    monkeypatch.setattr("tidemark.platform.jvm.java.USUAL_FOLDERS", ())
    monkeypatch.setattr(
        "tidemark.platform.jvm.java.find_java.__kwdefaults__", {"environ": None, "folders": ()}
    )
    code, found = findings(capsys, config)
    assert (code, found["java"]["ok"]) == (1, False)
    assert "install" in found["java"]["fix"]


def test_the_doctor_names_what_of_the_machine_lets_no_java_run(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    _, found = findings(capsys, config)
    assert all(found[name]["ok"] for name in ("user", "temporary folder", "file names"))
    monkeypatch.setattr("os.getuid", lambda: 54321)
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/proc/nowhere"])
    monkeypatch.setattr("tidemark.platform.jvm.environment.UTF_8", "POSIX")
    code, found = findings(capsys, config)
    wrong = {name: found[name] for name in ("user", "temporary folder", "file names")}
    assert (code, [finding["ok"] for finding in wrong.values()]) == (1, [False] * 3)
    assert "54321 has no entry in /etc/passwd" in wrong["user"]["detail"]
    assert "set TMPDIR" in wrong["temporary folder"]["fix"]
    assert "set LC_ALL" in wrong["file names"]["fix"]


def test_the_doctor_finds_missing_jars_and_downloads_none(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_HOME", str(config.parent / "home"))
    _, found = findings(capsys, config)
    assert found["jars"]["detail"].startswith("0 of ")
    assert found["jars"]["fix"] == "python -m tidemark.platform.jvm.ready"
    assert not (config.parent / "home").exists()


def test_lines_for_a_person_carry_marks_and_hints(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--config", str(config)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("✓ configuration: ") for line in lines)
    broker = next(i for i, line in enumerate(lines) if line.startswith("✗ broker: "))
    assert lines[broker + 1].strip() == "hint: tidemark broker start"


@pytest.mark.parametrize(
    ("written", "hint"), [("STRINGY", "did you mean STRING?"), ("VARCHAR(9)", "there are BOOLEAN, ")]
)
def test_a_type_that_was_meant_is_named_when_the_schema_has_an_unknown_one(
    config: Path, capsys: pytest.CaptureFixture[str], written: str, hint: str
) -> None:
    (config.parent / "orders.ddl").write_text(f"id {written}, amount DECIMAL(10,2), cob DATE, when TIMESTAMP")
    code, shown = answer(capsys, "check", "--quick", "--config", str(config))
    faults = {fault["problem"]: fault["hint"] for fault in shown["faults"]}
    assert code == 2
    assert faults[f"type {written.split('(')[0]} is not supported (word 2)"].startswith(hint)


@pytest.mark.parametrize(
    ("ddl", "destination", "key", "problem"),
    [
        (
            "id INT, tags ARRAY<INT>",
            "partition-columns: [Tags]",
            "partition-columns",
            "tags is ARRAY<INT>, which",
        ),
        (
            "id INT, m MAP<STRING, INT>",
            "partition-columns: [m]",
            "partition-columns",
            "m is MAP<STRING,INT>, which",
        ),
        ("id INT, b BOOLEAN", "cluster-by: [B]", "cluster-by", "b is BOOLEAN, which Delta cannot cluster by"),
        ("id INT", "statistics: [none]", "statistics", "the table has no column none"),
        ("id INT, b BINARY", "statistics: [b]", "statistics", "b is of a type that Delta keeps no lowest"),
        ("id INT", "statistics: [ID], partition-columns: [id]", "statistics", "ID is a partition column"),
        (
            "id INT, _change_type STRING",
            "properties: {delta.enableChangeDataFeed: 'true'}",
            "properties",
            "_change_type is a column that the change data feed adds itself",
        ),
        (
            "id INT",
            "properties: {delta.logRetentionDuration: interval 1 day}",
            'properties."delta.logRetentionDuration"',
            "it keeps its log for interval 1 day only",
        ),
    ],
)
def test_what_stops_a_start_is_a_fault_of_the_table(
    config: Path, capsys: pytest.CaptureFixture[str], ddl: str, destination: str, key: str, problem: str
) -> None:
    stream = f"{{kafka-topic: o, schema: {{ddl: '{ddl}'}}, destination: {{table: t, {destination}}}}}"
    config.write_text(f"kafka: {{bootstrap-servers: 'a:1'}}\nconnector: {{topics: {{o: {stream}}}}}\n")
    code, shown = answer(capsys, "check", "--quick", "--config", str(config))
    (fault,) = shown["faults"]
    assert (code, fault["key"]) == (2, f"connector.topics.o.destination.{key}")
    assert fault["problem"].startswith(problem)
    assert fault["hint"]


def test_a_column_may_be_named_in_another_dead_letter_case(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text().replace("[cob]", "[COB]\n        statistics: [AMOUNT, Id]"))
    code, shown = answer(capsys, "check", "--quick", "--config", str(config))
    assert (code, shown["faults"]) == (0, [])


def test_a_raw_table_is_not_partitioned_by_bytes(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    landing = "landing: {destination: {table: raw, partition-columns: [message_key]}}"
    config.write_text(config.read_text() + f"      {landing}\n")
    code, shown = answer(capsys, "check", "--quick", "--config", str(config))
    (fault,) = shown["faults"]
    assert (code, fault["key"]) == (2, "connector.topics.orders.landing.destination.partition-columns")
    assert fault["problem"].startswith("message_key is BINARY")


def test_a_column_that_delta_cannot_name_is_a_fault(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace("{epoch: ms}", "{epoch: ms, column: at noon}"))
    code, shown = answer(capsys, "check", "--quick", "--config", str(config))
    (fault,) = shown["faults"]
    assert (code, fault["problem"][:38]) == (2, "a column cannot be named `at noon`: De")


def test_merge_keys_are_compared_as_a_start_does(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merge = "idempotency: {mode: merge, merge-keys: [ID], order-by: amount}"
    config.write_text(config.read_text() + f"      {merge}\n")
    code, shown = answer(capsys, "check", "--quick", "--config", str(config))
    (fault,) = shown["faults"]
    assert (code, fault["key"]) == (2, "connector.topics.orders.idempotency.merge-keys")
    assert fault["problem"] == "the table has no column ID"


def test_a_default_of_the_ddl_points_to_the_key_that_gives_one(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "orders.ddl").write_text(
        "id STRING, o STRUCT<amount: INT DEFAULT 5>, when TIMESTAMP, cob DATE"
    )
    code, shown = answer(capsys, "check", "--quick", "--config", str(config))
    (fault,) = shown["faults"]
    assert code == 2
    assert (fault["problem"], fault["hint"]) == (
        "a schema has no DEFAULT (word 10)",
        "write fields.o.amount.default instead",
    )


@pytest.mark.parametrize(("options", "right"), [("", False), ("{epoch: us}", True)])
def test_nanoseconds_of_avro_are_no_timestamp(
    config: Path, capsys: pytest.CaptureFixture[str], options: str, right: bool
) -> None:
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    record = {"type": "record", "name": "r", "fields": [{"name": "at", "type": ["null", nanos]}]}
    (config.parent / "w.avsc").write_text(json.dumps(record))
    fields = f"fields: {{at: {options}}}, " if options else ""
    stream = (
        "{kafka-topic: o, supported-formats: [AVRO], avro: {writer-schema: w.avsc}, schema: {ddl: "
        f"at TIMESTAMP}}, {fields}destination: {{table: t}}}}"
    )
    config.write_text(f"kafka: {{bootstrap-servers: 'a:1'}}\nconnector: {{topics: {{o: {stream}}}}}\n")
    _, shown = answer(capsys, "check", "--quick", "--config", str(config))
    assert shown["ok"] is right
    if not right:
        assert "timestamp-nanos" in shown["faults"][0]["problem"]
