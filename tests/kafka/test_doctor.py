"""`tidemark doctor` against a broker that answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tidemark.cli.app import main
from tidemark.dev.broker import EmbeddedBroker

CONFIGURATION = """\
kafka:
  bootstrap-servers: {bootstrap}
connector:
  topics:
    orders:
      kafka-topic: doctor.orders
      schema: {{ddl: id STRING}}
      destination: {{bucket: ./lake, path: orders}}
"""


def finding_of(config: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["doctor", "--config", str(config), "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return {finding["name"]: finding for finding in findings}["broker"]


def test_the_doctor_names_a_topic_that_is_missing_and_is_content_when_it_is_there(
    broker: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tidemark.yml"
    config.write_text(CONFIGURATION.format(bootstrap=broker.bootstrap))
    missing = finding_of(config, capsys)
    assert not missing["ok"]
    assert "has no topic doctor.orders" in missing["detail"]
    assert missing["fix"].startswith("tidemark broker produce doctor.orders --file FILE")

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("doctor.orders", 1, 1)])["doctor.orders"].result(30)
    there = finding_of(config, capsys)
    assert there["ok"]
    assert there["detail"].endswith("1 broker(s), every topic is there")
