"""Errors of real Spark, Delta, Kafka and S3, judged as they are raised and from the text kept of them.

`GOLDEN=write pytest tests/faults/test_classification_of_real_errors.py` writes the texts anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.faults import provocations as provoke

from tidemark.contract.failures import Action, Scope
from tidemark.dev.broker import EmbeddedBroker
from tidemark.resilience.classification import Classifier
from tidemark.resilience.error_info import error_info_of

TRACES = Path(__file__).parents[1] / "golden" / "traces"
FRAMES_KEPT = 2

RETRY, CONFLICT, DLQ, STOP, RESTART = (
    Action.RETRY,
    Action.RETRY_OP,
    Action.DLQ,
    Action.STOP,
    Action.RESTART_QUERY,
)
SPARK = {
    "concurrent_append": ("delta-conflict", CONFLICT),
    "concurrent_delete": ("delta-conflict", CONFLICT),
    "concurrent_transaction": ("second-writer", STOP),
    "table_changed": ("delta-table-changed", CONFLICT),
    "unknown_feature": ("delta-refused", STOP),
    "unknown_column_mapping": ("spark-plan", STOP),
    "reserved_column": ("delta-refused", STOP),
    "unsupported_clustering": ("spark-plan", STOP),
    "missing_table": ("missing-table", STOP),
    "missing_path": ("missing-table", STOP),
    "schema_mismatch": ("delta-schema", STOP),
    "type_mismatch": ("delta-schema", STOP),
    "violated_constraint": ("delta-invalid-rows", DLQ),
    "deleted_data_file": ("missing-file", RETRY),
    "unknown_scheme": ("wrong-path", STOP),
    "file_in_the_way": ("wrong-path", STOP),
    "bad_cast": ("invalid-record", DLQ),
    "raised_in_sql": ("unclassified", RETRY),
    "bug_in_task": ("bug", DLQ),
    "fenced_in_batch": ("own-fenced", STOP),
    "restart_in_batch": ("own-restart", RESTART),
    "missing_table_in_batch": ("missing-table", STOP),
    "kafka_address_in_spark": ("kafka-unavailable", RETRY),
}
WITH_BROKER = {
    "kafka_topic_in_spark": ("missing-topic", RETRY),
    "kafka_too_large_in_spark": ("kafka-too-large", DLQ),
}
CLIENTS = {
    "kafka_topic": ("missing-topic", RETRY),
    "kafka_too_large": ("kafka-too-large", DLQ),
}
S3 = {
    "access-denied": ("credentials-aws", STOP),
    "slow-down": ("aws-throttled", RETRY),
    "internal-error": ("aws-unavailable", RETRY),
    "request-timeout": ("aws-request-timeout", RETRY),
    "no-such-bucket": ("missing-bucket", STOP),
    "expired-token": ("expired-credentials", RETRY),
}
OTHERS = {
    "kafka_address": ("kafka-unavailable", RETRY),
    "kafka_password_in_spark": ("credentials-class", STOP),
    "s3-nobody": ("network", RETRY),
}
KEPT = {
    "s3a_access_denied": ("credentials-aws", STOP),
    "s3a_no_such_bucket": ("missing-bucket", STOP),
    "s3a_slow_down": ("aws-throttled", RETRY),
    "s3a_internal_error": ("aws-unavailable", RETRY),
    "s3a_nobody": ("network", RETRY),
}
"""Recorded once, from sessions that need another configuration or another user than the tests'."""
LIVE = {**SPARK, **WITH_BROKER, **CLIENTS, **OTHERS, **{f"s3-{name}": row for name, row in S3.items()}}


def text_of(error: BaseException) -> str:
    """What a log would hold of the error, without this machine's paths, ports and ids; few frames kept."""
    kind = type(error)
    text = f"{kind.__module__}.{kind.__qualname__}: {error}"
    text = re.sub(r"(file:)?/{1,3}(work|root|tmp|home|usr|opt|var|proc)/[^\s'\"`),\]]*", r"\1/folder", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "0" * 8, text)
    text = re.sub(r"(127\.0\.0\.1|localhost|\b[0-9a-z]+):\d{4,5}\b", r"\1:9092", text)
    text = re.sub(r"\(TID (\d+)\) \([^)\s]+", r"(TID \1) (localhost", text)
    text = re.sub(r"\b1\d{12}\b|\b20\d\d-\d\d-\d\d[ T][\d:.]+Z?", "0", text)
    kept, frames = [], 0
    for line in text.splitlines():
        is_frame = line.startswith(("\tat ", "\t... "))
        frames = frames + 1 if is_frame else 0
        if frames <= FRAMES_KEPT:
            kept.append(line.rstrip())
    return "\n".join(kept) + "\n"


def check(name: str, act: Callable[[], None]) -> None:
    """The error that `act` raises is judged as the table says, now and from its text."""
    rule, action = LIVE[name]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is what the table is about
        act()
    decision = Classifier().classify(caught.value)
    if os.environ.get("GOLDEN") == "write":
        TRACES.mkdir(parents=True, exist_ok=True)
        (TRACES / f"{name}.txt").write_text(text_of(caught.value), "utf-8")
    assert (decision.rule, decision.action) == (rule, action), error_info_of(caught.value)
    assert decision.counts_for_breaker == (action is RETRY)
    assert (decision.scope is Scope.RECORD) == (action is DLQ)


@pytest.mark.guarantee("case: ops-01")
@pytest.mark.parametrize("name", [*LIVE, *KEPT])
def test_error_is_judged_when_only_its_text_is_left(name: str) -> None:
    rule, action = {**LIVE, **KEPT}[name]
    decision = Classifier().classify((TRACES / f"{name}.txt").read_text("utf-8"))
    assert (decision.rule, decision.action) == (rule, action)


def test_every_text_kept_is_judged() -> None:
    assert {file.stem for file in TRACES.glob("*.txt")} == {*LIVE, *KEPT}


@pytest.mark.parametrize("name", SPARK)
def test_error_is_judged_when_spark_or_delta_raises_it(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    check(name, lambda: getattr(provoke, name)(spark, tmp_path))


@pytest.mark.parametrize("name", WITH_BROKER)
def test_error_is_judged_when_sparks_kafka_client_raises_it(
    name: str, spark: SparkSession, broker: EmbeddedBroker, topic: Callable[..., str]
) -> None:
    check(name, lambda: getattr(provoke, name)(spark, broker.bootstrap, topic()))


@pytest.mark.parametrize("name", CLIENTS)
def test_error_is_judged_when_the_kafka_client_raises_it(
    name: str, broker: EmbeddedBroker, topic: Callable[..., str]
) -> None:
    check(name, lambda: getattr(provoke, name)(broker.bootstrap, topic(max_message_bytes="1000")))


def test_error_is_judged_when_no_broker_listens() -> None:
    check("kafka_address", provoke.kafka_address)


@pytest.fixture
def guarded_broker() -> Iterator[EmbeddedBroker]:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{login} required user_tidemark="right";',
    }
    with EmbeddedBroker(listeners={"SASL": "SASL_PLAINTEXT"}, properties=properties) as running:
        yield running


def test_error_is_judged_when_the_password_is_wrong(
    spark: SparkSession, guarded_broker: EmbeddedBroker
) -> None:
    address = guarded_broker.address("SASL")
    check("kafka_password_in_spark", lambda: provoke.kafka_password_in_spark(spark, address))


@pytest.mark.parametrize("name", S3)
def test_error_is_judged_when_s3_answers_with_it(name: str) -> None:
    with provoke.s3_that_answers(*provoke.ANSWERS[name]) as endpoint:
        check(f"s3-{name}", lambda: provoke.put_object(endpoint))


def test_error_is_judged_when_no_s3_listens() -> None:
    check("s3-nobody", lambda: provoke.put_object(f"http://{provoke.NOBODY}"))


def test_wait_is_read_when_s3_asks_to_slow_down() -> None:
    with (
        provoke.s3_that_answers(*provoke.ANSWERS["slow-down"]) as endpoint,
        pytest.raises(Exception, match="SlowDown") as caught,
    ):
        provoke.put_object(endpoint)
    assert error_info_of(caught.value).retry_after == 3.0
