"""A damaged segment at the broker gets an answer that names it, and is not waited for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.contract.errors import DataLoss
from tidemark.contract.failures import Action
from tidemark.contract.marks import Marks
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.ingest.batch.refusals import check_readable
from tidemark.resilience.classification import Classifier

BOUNDS = Bounds(Marks({3: 0}), Marks({3: 5000}))
PLAN: Any = SimpleNamespace(rewind="tidemark rewind --stream orders")
TRACE = "\n".join(
    (
        "An error occurred while calling o212.save.",
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 3 times",
        "Caused by: org.apache.kafka.common.KafkaException: Received exception when fetching the next record"
        " from orders-eu-3. If needed, please seek past the record to continue consumption.",
        "\tat org.apache.kafka.clients.consumer.internals.CompletedFetch.fetchRecords(Unknown.java)",
        "Caused by: org.apache.kafka.common.errors.CorruptRecordException: Record batch for partition"
        " orders-eu-3 at offset 4711 is invalid, cause: Record is corrupt (stored crc = 1, computed crc = 2)",
        "\t... 30 more",
    )
)


@pytest.mark.guarantee("bad day: a segment of the broker is damaged")
def test_a_record_that_the_broker_cannot_give_back_is_named_with_what_to_do() -> None:
    with pytest.raises(DataLoss) as raised:
        check_readable(RuntimeError(TRACE), PLAN, BOUNDS)
    assert "topic orders-eu cannot be read at partition 3, offset 4711: Record is corrupt" in str(
        raised.value
    )
    assert "tidemark rewind --stream orders --to-offset 3=" in str(raised.value)
    assert Classifier().classify(raised.value).action is Action.STOP


def test_reading_is_not_retried_when_the_broker_cannot_give_a_record_back() -> None:
    assert Classifier().classify(RuntimeError(TRACE)).action is Action.STOP


def test_other_errors_pass_by() -> None:
    check_readable(OSError("No space left on device"), PLAN, BOUNDS)
