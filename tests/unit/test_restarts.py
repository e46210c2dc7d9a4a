"""When a stream starts again after a failure, when its batch waits instead of becoming dead letters, and where a
checkpoint counts as lying on the table's store.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.config.destination import TableRef
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import (
    Fenced,
    NonRetriableError,
    RestartStream,
    RetriableError,
    RetriesExhausted,
)
from tidemark.contract.failures import Action, Decision, Scope
from tidemark.contract.marks import Marks
from tidemark.ingest.batch.outage import may_dead_letter, on_one_store
from tidemark.ingest.restarts import MOST_IN_A_ROW, RestartPolicy
from tidemark.resilience.classification import Classifier

AWAY = RetriesExhausted("away", decision=Decision("UNAVAILABLE", Action.RETRY, Scope.DEPENDENCY))
AWAY_THEN_STOP = RetriesExhausted(
    "away", decision=Decision("MISSING_TOPIC", Action.RETRY, Scope.DEPENDENCY, then=Action.STOP)
)


@pytest.mark.parametrize("error", [AWAY, RetriableError("broker"), ConnectionResetError("reset")])
def test_an_outage_is_waited_for_without_end_unless_the_run_is_to_end(error: Exception) -> None:
    running = RestartPolicy(bounded=False, classifier=Classifier())
    delays = [running.delay_after(error) for _ in range(3 * MOST_IN_A_ROW)]
    assert all(delay is not None and 0 < delay <= 30 for delay in delays)
    assert RestartPolicy(bounded=True, classifier=Classifier()).delay_after(error) is None


REFUSED = Exception("[DELTA_UNSUPPORTED_FEATURES_IN_CONFIG] Table features … are not recognized")


@pytest.mark.guarantee("case: kafka-04")
@pytest.mark.parametrize("error", [Fenced("other"), NonRetriableError("wrong"), AWAY_THEN_STOP, REFUSED])
@pytest.mark.parametrize("bounded", [False, True])
def test_a_stream_stops_at_once_when_a_person_must_act(error: Exception, bounded: bool) -> None:
    assert RestartPolicy(bounded, Classifier()).delay_after(error) is None


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("error", [RestartStream("marks moved"), ZeroDivisionError("unknown")])
def test_a_stream_stops_when_it_restarts_for_the_same_reason_again_and_again(
    error: Exception, bounded: bool
) -> None:
    restart_policy = RestartPolicy(bounded, Classifier())
    delays = [restart_policy.delay_after(error) for _ in range(MOST_IN_A_ROW + 1)]
    assert delays[-1] is None
    if isinstance(error, RestartStream):
        assert set(delays[:-1]) == {1.0}


def test_outages_use_up_no_restart_and_a_landed_batch_gives_all_back() -> None:
    restart_policy = RestartPolicy(False, Classifier())
    for _ in range(2):
        for error in (AWAY, RestartStream("marks moved"), Exception("unheard of")):
            delays = [restart_policy.delay_after(error) for _ in range(MOST_IN_A_ROW)]
            assert None not in delays, error
        assert restart_policy.delay_after(RestartStream("marks moved")) is None
        restart_policy.emit(BatchReport("events", 1, 0, 0, 0, 0, 0, 0, None, Marks()))


@pytest.mark.parametrize(
    ("table", "checkpoint", "same"),
    [
        ("s3a://lake/orders", "s3a://lake/checkpoints", True),
        ("s3a://lake/orders", "s3://lake/checkpoints", True),
        ("s3a://lake/orders", "s3a://other/checkpoints", False),
        ("s3a://lake/orders", "/var/checkpoints", False),
        ("/data/orders", "/data/checkpoints", False),
        ("file:///data/orders", "file:///data/checkpoints", False),
        (None, "s3a://lake/checkpoints", False),
    ],
)
def test_the_checkpoint_is_on_the_tables_store_when_both_are_in_one_bucket(
    table: str | None, checkpoint: str, same: bool
) -> None:
    ref = TableRef(path=table) if table else TableRef(name="main.bronze.orders")
    assert on_one_store(ref, checkpoint) is same


@pytest.mark.parametrize(
    ("changed", "may"),
    [
        ({}, True),
        # A version that lands later could not be told from the newest one.
        ({"idempotency": SimpleNamespace(merge_keys=("id",))}, False),
        ({"processing": SimpleNamespace(on_exhausted="pause")}, False),
        ({"dead_letters": None}, False),
        ({"checkpoint": SimpleNamespace(path="s3a://lake/checkpoints")}, False),
    ],
)
def test_a_batch_of_an_outage_waits_where_its_dead_letters_could_not_land(
    changed: dict[str, Any], may: bool
) -> None:
    plan: Any = SimpleNamespace(
        **{
            "idempotency": SimpleNamespace(merge_keys=()),
            "processing": SimpleNamespace(on_exhausted="dead-letter"),
            "retry": SimpleNamespace(classifier=Classifier()),
            "dead_letters": object(),
            "table": TableRef(path="s3a://lake/orders"),
            "checkpoint": SimpleNamespace(path="/var/checkpoints"),
            **changed,
        }
    )
    assert may_dead_letter(plan, AWAY) is may
