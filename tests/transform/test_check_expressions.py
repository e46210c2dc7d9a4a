"""`tidemark check` with Spark: expressions are analysed, and every fault has its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemark.cli.app import main

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
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tidemark.yml"
    config.write_text(CONFIGURATION)
    assert main(["check", "--config", str(config), "--json"]) == 2
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
