"""Many dead letters, dead letters next to a running stream, and dead letters that go round by the topic."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.dead_letters.conftest import DeadLetters
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.contract.dead_letters import DEAD_LETTER_DDL, DEAD_LETTER_ID
from tidemark.dead_letters.columns import columns_of
from tidemark.dead_letters.dlq_table.query import dead_letter_target
from tidemark.dead_letters.listing import tally_of
from tidemark.dead_letters.republish import republish
from tidemark.dead_letters.selection import PayloadEdit, Selection
from tidemark.dev.producers import SampleRecord
from tidemark.ingest.application import Ingest

MakeStream = Callable[..., StreamUnderTest]
MakeDeadLetters = Callable[[StreamUnderTest], DeadLetters]
FIXED = PayloadEdit(expression="replace(payload, '\"not a number\"', '7')")
MANY = 100_000


@contextmanager
def _results_of_at_most(spark: SparkSession, size: str) -> Iterator[None]:
    """Spark ends a job whose results for the driver are larger than this."""
    conf, name = spark._jsc.sc().conf(), "spark.driver.maxResultSize"
    before = conf.get(name, "1g")
    conf.set(name, size)
    try:
        yield
    finally:
        conf.set(name, before)


@contextmanager
def _generated_code(spark: SparkSession) -> Iterator[None]:
    """As sessions but the suite's have it: for many rows it costs less than evaluating trees."""
    shipped = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}
    before = {name: spark.conf.get(name) for name in shipped}
    try:
        for name, value in shipped.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_100000_dead_letters_are_listed_and_replayed_when_the_driver_may_hold_few(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    flow = stream()
    flow.produce(good(0))
    flow.land()
    kept = dead_letters(flow)
    kept.table.create(flow.spark)
    payload = F.concat(
        F.lit('{"id": '), F.col("id"), F.lit(', "name": "'), F.repeat(F.lit("x"), 150), F.lit('"}')
    )
    values = {
        DEAD_LETTER_ID: F.concat(F.lit("former:0:"), F.col("id")),
        "stream_topic": F.lit("former"),
        "stream_topic_id": F.lit("former"),
        "stream_partition": F.lit(0),
        "stream_offset": F.col("id"),
        "message_payload": F.encode(payload, "UTF-8"),
        "failure_code": F.when(F.col("id") % 10 == 0, F.lit("RULE_VIOLATED")).otherwise("TYPE_MISMATCH"),
        "failed_at": F.timestamp_seconds(F.col("id")),
    }
    columns = columns_of(DEAD_LETTER_DDL, values)
    with _results_of_at_most(flow.spark, "8m"), _generated_code(flow.spark):
        tracemalloc.start()
        kept.table.merge(flow.spark.range(MANY).select(*columns))
        summary = tally_of(kept.table.dead_letters(flow.spark))
        oldest = (
            Selection(codes=("RULE_VIOLATED",), limit=50).of(kept.table.dead_letters(flow.spark)).collect()
        )
        done = kept.replay()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert {(r.failure_code, r.letters) for r in summary} == {
        ("TYPE_MISMATCH", 90_000),
        ("RULE_VIOLATED", 10_000),
    }
    assert [r.stream_offset for r in oldest] == [n * 10 for n in range(50)]
    assert (done.chosen, done.resolved, done.rejected) == (MANY, MANY, 0)
    assert flow.rows.count() == MANY + 1
    assert peak < 32 * 2**20


def test_batches_and_dead_letters_go_on_when_a_replay_runs_at_the_same_time(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    flow = stream(
        **{"dead-letter": {"keep-table": True}, "processing": {"batch-size": 1, "poll-interval": 0.2}}
    )
    kept = dead_letters(flow)
    flow.produce(BAD, good(1))
    running = Ingest(flow.spark, flow.settings())
    thread = threading.Thread(target=running.run)
    thread.start()
    sent = 2
    try:
        deadline = time.monotonic() + 120
        resolved = 0
        while resolved < 3 and time.monotonic() < deadline:
            flow.produce(BAD, *[good(n) for n in range(20)])
            sent += 21
            if kept.table.exists(flow.spark) and flow.state().newest is not None:
                resolved += kept.replay(edit=FIXED).resolved
        assert resolved >= 3
        assert thread.is_alive()
    finally:
        running.stop()
        thread.join(120)
    flow.land()
    kept.replay(edit=FIXED)
    assert len(flow.landed()) == len(set(flow.landed())) == sent
    assert {status for _, status in kept.statuses()} == {"resolved"}


@pytest.mark.guarantee("case: replay-01")
def test_a_record_that_always_fails_is_parked_when_its_replays_go_by_the_topic(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    flow = stream()
    kept = dead_letters(flow)
    flow.produce(SampleRecord(BAD, key=b"k", headers=[("h", b"1"), ("h", b"2")]))
    published, counters = [], []
    for _ in range(3):
        flow.land()
        kept.keep()
        settings = flow.settings()
        target = dead_letter_target(flow.spark, settings, NAME, run="here")
        published.append(republish(flow.spark, settings, target, Selection(), most=2))
        newest = max(kept.rows(), key=lambda row: row.stream_offset)
        counters.append([bytes(h.value) for h in newest.message_headers if h.name == "__dlq.replay.count"])
        assert [h.name for h in newest.message_headers].count("h") == 2
        assert bytes(newest.message_payload) == BAD
    assert published == [1, 1, 0]
    assert counters == [[], [b"1"], [b"2"]]
    assert kept.statuses() == [(0, "replayed"), (1, "replayed"), (2, "parked")]
