"""A decoder of an installed package: it unwraps the payload, and what it cannot read is rejected."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.transform.samples import code, decoded, outcomes, plan_of

from tidemark.contract.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "examples" / "tidemark-acme"


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "acme"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target), str(EXAMPLE)]
    subprocess.run([*install, *options], check=True)
    monkeypatch.syspath_prepend(str(target))


def wrapped(body: bytes) -> bytes:
    return json.dumps({"sent_by": "acme", "body": base64.b64encode(body).decode()}).encode()


@pytest.mark.usefixtures("acme")
def test_the_payload_is_taken_out_of_its_wrapping_when_the_stream_names_a_decoder(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = plan_of(spark, tmp_path, "id INT", decoder="acme-wrapped", supported_formats=["JSON", "CSV"])
    payloads = [
        wrapped(b'{"id": 1}'),
        wrapped(b'{"id": "x"}'),
        b'{"id": 2}',
        b"not wrapped",
        wrapped(b""),
        None,
    ]

    found = outcomes(spark, payloads, plan)

    assert [(r.route, code(r), decoded(r, plan)) for r in found] == [
        ("accepted", None, {"id": 1}),
        ("rejected", "TYPE_MISMATCH", None),
        ("rejected", "UNSUPPORTED_FORMAT", None),
        ("rejected", "UNSUPPORTED_FORMAT", None),
        ("rejected", "EMPTY_PAYLOAD", None),
        ("skipped", None, None),
    ]
    assert "what decoder acme-wrapped reads" in found[2].failure.message
    assert [r.message_payload and bytes(r.message_payload) for r in found] == payloads


def test_the_stream_does_not_start_when_no_package_offers_its_decoder(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"no installed package offers a decoder acme-wrapped"):
        plan_of(spark, tmp_path, "id INT", decoder="acme-wrapped")
