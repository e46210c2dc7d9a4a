"""Tables and topics that are less than the marks say: dropped while the stream was stopped, or cut short."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.cli.app import main
from tidemark.contract import records
from tidemark.contract.errors import DataLoss, LedgerError
from tidemark.contract.marks import Marks
from tidemark.dead_letters.dlq_table.query import dead_letter_target, keep_dead_letters
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dev.producers import SampleRecord
from tidemark.ingest import application as ingest_module
from tidemark.ingest.start import decision as start_module
from tidemark.sink import table as tables
from tidemark.sink.append import append_nothing
from tidemark.source.topics import settled_ends
from tidemark.streams.status import logs_of, status_of
from tidemark.transform import DecodePlan, transform

Make = Callable[..., StreamUnderTest]


def commanded(flow: StreamUnderTest, *arguments: str) -> int:
    config = flow.folder / "tidemark.yml"
    config.write_text(json.dumps(flow.document()))
    return main([*arguments, "--config", str(config), "--json"])


def test_the_stream_stops_and_asks_when_its_table_was_dropped_while_it_was_stopped(stream: Make) -> None:
    flow = stream()
    flow.produce(good(0), good(1), BAD)
    flow.land()
    target = dead_letter_target(flow.spark, flow.settings(), NAME, run="by-hand")
    keep_dead_letters(flow.spark, flow.settings(), target)
    dead_letters = DeadLetterTable(flow.table)
    flow.produce(good(2))
    folder = Path(str(flow.table.path))

    shutil.rmtree(folder)
    refused = flow.run().error
    assert isinstance(refused, LedgerError)
    assert "neither rows nor marks" in refused.message
    assert "completed batch 0" in refused.message
    assert "tidemark adopt --stream events --marks earliest" in str(refused.hint)
    assert not folder.exists(), "nothing is half-made"
    tables.create(flow.spark, flow.table, target.schema, target.destination)
    assert isinstance(flow.run().error, LedgerError), "an empty one is as good as none"

    assert commanded(flow, "adopt", "--stream", NAME, "--marks", "earliest", "--yes") == 0
    flow.land()
    assert flow.ids() == [0, 1, 2]
    shutil.rmtree(folder)
    assert commanded(flow, "adopt", "--stream", NAME, "--marks", "latest", "--yes") == 0
    flow.produce(good(3))
    flow.land()
    assert flow.ids() == [3]

    shutil.rmtree(str(dead_letters.facts.path))
    keep_dead_letters(flow.spark, flow.settings(), target)
    kept = dead_letters.dead_letters(flow.spark).select(records.OFFSET).collect()
    assert [r[records.OFFSET] for r in kept] == [2], "the dead letters come again from their topic"


@pytest.mark.guarantee("case: ops-04")
def test_the_stream_says_so_when_its_marks_lie_beyond_the_end_of_the_topic(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = stream()
    flow.produce(good(0), good(1), good(2))
    flow.land()
    state = flow.state()
    assert state.newest is not None
    # As after an unclean election of a leader: the topic is the same, and ends before what was read.
    beyond = Marks({0: 500})
    ledger_commit = replace(
        state.newest, seq=state.seq + 1, base=state.version, token="r/x/1", marks=beyond, published=beyond
    )
    append_nothing(flow.spark, flow.table, ledger_commit, flow.rows.schema)
    monkeypatch.setattr(start_module, "settled_ends", partial(settled_ends, settle_within=0.0))

    (status,) = status_of(logs_of(flow.spark), flow.settings(), NAME)
    assert [(p.mark, p.end_offset, p.lag) for p in status.partitions] == [(500, 3, 0)]
    refused = flow.run().error
    assert isinstance(refused, DataLoss)
    assert "partition 0: marks at 500, topic ends at 3" in refused.message
    assert "tidemark rewind --stream events --to-latest" in str(refused.hint)

    assert commanded(flow, "rewind", "--stream", NAME, "--to-latest", "--yes") == 0
    flow.produce(good(3))
    flow.land()
    assert flow.ids() == [0, 1, 2, 3]
    (report,) = flow.reports
    assert (report.read, report.lag) == (1, 0)


@pytest.mark.guarantee("case: ops-02")
def test_a_batch_is_whole_when_others_vacuum_between_its_files_and_its_commit(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = stream(partitions=2)
    flow.produce(SampleRecord(good(0), partition=0), SampleRecord(good(1), partition=1))
    flow.land()
    flow.produce(*[SampleRecord(good(n), partition=n % 2) for n in range(2, 6)])
    go = flow.folder / "go"

    # With type hints Spark would look for a vectorized function.
    @F.udf("binary")
    def held(value, partition):
        while partition == 1 and not go.exists():
            time.sleep(0.1)
        return value

    def slow_transform(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
        payload = held(records.PAYLOAD, records.PARTITION)
        return transform(envelopes.withColumn(records.PAYLOAD, payload), plan)

    monkeypatch.setattr(ingest_module, "transform", slow_transform)
    folder = Path(str(flow.table.path))
    committed = set(folder.glob("*.parquet"))
    writer = threading.Thread(target=flow.land)
    writer.start()
    try:
        deadline = time.monotonic() + 60
        while set(folder.glob("*.parquet")) == committed and time.monotonic() < deadline:
            time.sleep(0.1)
        assert set(folder.glob("*.parquet")) > committed, "a file lies there that no commit names"
        with pytest.raises(IllegalArgumentException, match="168"):
            flow.spark.sql(f"VACUUM {flow.table.sql} RETAIN 0 HOURS")
        flow.spark.sql(f"VACUUM {flow.table.sql} RETAIN 168 HOURS")
    finally:
        go.write_text("")
        writer.join()
    assert flow.ids() == list(range(6))
