"""`tidemark check` with Spark: expressions are analysed, and every fault has its line."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidemark.cli.app import main
from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract.errors import ConfigError
from tidemark.sink.table import create
from tidemark.transform.expressions import unstable, unstable_as_analysed

CONFIGURATION = """\
kafka:
  bootstrap-servers: localhost:9092
connector:
  topics:
    orders:
      kafka-topic: orders
      schema:
        ddl: id STRING, amount DECIMAL(10,2)
      rules:
        - name: positive
          expr: amount > 0
        - name: misspelt
          expr: amoun > 0
      enrich:
        country: upper(id)
        drawn: rand()
      destination:
        table: orders
        partition-columns: [country, region]
"""


def test_every_fault_of_rules_enrichment_and_columns_is_reported_at_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "tidemark.yml"
    config.write_text(CONFIGURATION)
    logged_by_pyspark: list[logging.LogRecord] = []
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    monkeypatch.setattr(logger, "handle", logged_by_pyspark.append)
    assert main(["check", "--config", str(config), "--json"]) == 2
    assert logged_by_pyspark == []
    faults = json.loads(capsys.readouterr().out)["faults"]
    at = "connector.topics.orders"
    assert [(f["line"], f["key"]) for f in faults] == [
        (13, f"{at}.rules[1].expr"),
        (16, f"{at}.enrich.drawn"),
        (19, f"{at}.destination.partition-columns"),
    ]
    assert "amoun" in faults[0]["problem"]
    assert faults[2]["problem"] == "the table has no column region"


def test_a_right_configuration_has_its_expressions_checked(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tidemark.yml"
    right = CONFIGURATION.replace("amoun >", "amount >").replace("rand()", "length(id)")
    config.write_text(right.replace(", region]", "]"))
    assert main(["check", "--config", str(config), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["expressions_checked"]
    assert spark.range(1).count() == 1


CLOCKS = ("rand /**/ ()", "rand -- x\n()", "now/* a\nb */()", "identifier('now')()")
ONLY_ANALYSED = {
    "IDENTIFIER /**/ ('re' || 'flect')('java.lang.System', 'nanoTime')": "not deterministic",
    "transform(array(1), x -> x + `rand`())": "not deterministic",
    "date_add(cast(id as date), day(`now` /**/ ()))": "now() is not deterministic",
    "concat(`current_user`(), 'current_user()')": "current_user() is not deterministic",
    "`current_date`": "current_date() is not deterministic",
    "EXISTS (FROM VALUES (1))": "looks at other rows",
}
SOUND = (
    "concat(id, 'now() and rand()') -- not now()",
    "id = \"user()\" OR date_format(ts, '\\'now()\\'') = 'version(1)'",
    "exists(array(list), x -> x > 1)",
    "if(list = 0, 1 / 0, list)",
    "1 / 0",
    "list /* of what is there */ + 1",
)


def test_an_expression_is_judged_by_what_spark_makes_of_it(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "id STRING, ts TIMESTAMP, list INT")
    expressions = [*ONLY_ANALYSED, *SOUND]
    found = unstable_as_analysed({e: e for e in expressions}, empty)
    assert set(found) == set(ONLY_ANALYSED)
    for expression, why in ONLY_ANALYSED.items():
        assert why in found[expression]
    assert unstable_as_analysed({e: e for e in SOUND}, empty) == {}
    assert [row.viewName for row in spark.sql("SHOW VIEWS LIKE '_tidemark*'").collect()] == []


@pytest.mark.parametrize(
    "expression",
    [
        "rand /**/ ()",
        "identifier('reflect')('java.lang.System', 'nanoTime')",
        # Only its plan says that it is no column.
        "concat(`current_date`, id)",
    ],
)
def test_a_rule_that_hides_what_it_calls_is_a_fault(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], expression: str
) -> None:
    config = tmp_path / "tidemark.yml"
    right = CONFIGURATION.replace("rand()", expression).replace("amoun >", "amount >")
    config.write_text(right.replace(", region]", "]"))
    assert main(["check", "--config", str(config), "--json"]) == 2
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert fault["key"] == "connector.topics.orders.enrich.drawn"
    assert "not deterministic" in fault["problem"] or "hides what is called" in fault["problem"]


@pytest.mark.parametrize("expression", CLOCKS)
def test_comments_and_identifiers_hide_nothing_from_the_check_of_the_text(expression: str) -> None:
    assert unstable(expression, frozenset({"id"}))


PROPERTIES = """\
kafka: {bootstrap-servers: 'localhost:9092'}
connector:
  topics:
    orders:
      kafka-topic: orders
      schema: {ddl: 'id STRING, amount DECIMAL(10,2)'}
      destination:
        table: orders
        properties:
          delta.checkpointInterval: "7"
          delta.enableChangeDataFeed: maybe
    others:
      kafka-topic: others
      schema: {ddl: 'id STRING'}
      destination:
        table: others
        properties: {delta.nothingKnown: "1"}
    raw:
      kafka-topic: raw
      landing:
        destination:
          table: main.raw.records
          properties: {delta.logRetentionDuration: interval 1 month, delta.ofDatabricks: "1"}
    right:
      kafka-topic: right
      schema: {ddl: 'id STRING'}
      destination: {table: right, properties: {delta.appendOnly: "true", ours: x}}
"""


def test_properties_that_delta_refuses_are_named_by_the_check_as_by_a_start(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tidemark.yml"
    config.write_text(PROPERTIES)
    assert main(["check", "--config", str(config), "--json"]) == 2
    faults = {f["key"]: f["problem"] for f in json.loads(capsys.readouterr().out)["faults"]}
    at = "connector.topics."
    assert set(faults) == {
        f'{at}orders.destination.properties."delta.enableChangeDataFeed"',
        f'{at}others.destination.properties."delta.nothingKnown"',
        f'{at}raw.landing.destination.properties."delta.logRetentionDuration"',
    }
    assert all(problem.startswith("Delta refuses it: ") for problem in faults.values())
    schema = spark.createDataFrame([], "id STRING").schema
    destination = Destination(properties={"delta.enableChangeDataFeed": "maybe", "delta.appendOnly": "true"})
    with pytest.raises(ConfigError) as refused:
        create(spark, TableRef(path=str(tmp_path / "t")), schema, destination)
    message = refused.value.message
    assert message.startswith(
        "Delta refuses destination.properties delta.enableChangeDataFeed = maybe: For input"
    )
