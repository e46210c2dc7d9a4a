"""Marks moved by hand, ranges decoded again, tables compared and kept in shape, on a real broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.cli.app import main
from tidemark.config.destination import TableRef
from tidemark.contract.errors import UsageError
from tidemark.contract.ledger_commit import CommitKind
from tidemark.contract.marks import Marks
from tidemark.dead_letters.dlq_table.query import dead_letter_target
from tidemark.dev.producers import SampleRecord
from tidemark.operations.backfill import Backfilled, backfill
from tidemark.operations.compare import compare
from tidemark.operations.maintain import Maintenance, maintain
from tidemark.operations.rewind import RewindResult, RewindTarget, plan_rewind, rewind
from tidemark.source.topics import KafkaAdmin

Make = Callable[..., StreamUnderTest]
RUN = "by-hand"


def moved(flow: StreamUnderTest, to: RewindTarget) -> RewindResult:
    settings = flow.settings()
    target = dead_letter_target(flow.spark, settings, NAME, run=RUN)
    return rewind(flow.spark, KafkaAdmin(settings.kafka), target, to)


def corrected(flow: StreamUnderTest, start: Marks, end: Marks, **how: Any) -> Backfilled:
    options = how.pop("options", {})
    settings = flow.settings(**options)
    target = dead_letter_target(flow.spark, settings, NAME, run=RUN)
    return backfill(flow.spark, settings, target, start=start, end=end, **how)


def commanded(flow: StreamUnderTest, *arguments: str) -> int:
    config = flow.folder / "tidemark.yml"
    config.write_text(json.dumps(flow.document()))
    return main([*arguments, "--config", str(config), "--json"])


@pytest.mark.guarantee("case: kafka-02")
def test_rows_land_once_and_skipped_offsets_are_on_record_when_marks_are_moved(
    stream: Make,
) -> None:
    flow = stream(partitions=2)
    at = datetime(2026, 3, 1, tzinfo=UTC)
    for number in range(4):
        moment = round((at + timedelta(hours=number)).timestamp() * 1000)
        flow.produce(SampleRecord(good(number), partition=0, timestamp_ms=moment))
    flow.produce(SampleRecord(good(10), partition=1))
    flow.land()
    settings = flow.settings()
    target = dead_letter_target(flow.spark, settings, NAME, run=RUN)
    planned = plan_rewind(
        flow.spark, KafkaAdmin(settings.kafka), target, RewindTarget(time=at + timedelta(hours=2))
    )
    assert planned.after.at(0) == 2
    assert planned.version is None
    assert flow.state().marks == Marks({0: 4, 1: 1})

    back = moved(flow, RewindTarget(earliest=True))
    assert back.again == {0: (0, 4), 1: (0, 1)}
    assert flow.state().marks == Marks({0: 0, 1: 0})
    flow.produce(SampleRecord(good(4), partition=0))
    flow.spark.sql(f"UPDATE {flow.table.sql} SET name = 'by hand' WHERE id IN (1, 10)")
    flow.land()
    assert flow.ids() == [0, 1, 2, 3, 4, 10]
    assert sum(r.conflicts for r in flow.reports) == 2, "rows that differ from their records are reported"
    assert len(flow.landed()) == len(set(flow.landed()))

    flow.produce(*[SampleRecord(good(n), partition=0) for n in (5, 6, 7)])
    forward = moved(flow, RewindTarget(offsets={0: 7}))
    assert forward.skipped == {0: (5, 7)}
    assert flow.ledger_commits()[-1].jumped == {0: (5, 7)}
    assert flow.ledger_commits()[-1].kind is CommitKind.REWIND
    flow.land()
    assert flow.ids() == [0, 1, 2, 3, 4, 7, 10]
    for to, why in (
        (RewindTarget(offsets={0: 9}), "outside of 0 to 8"),
        (RewindTarget(offsets={3: 0}), "the topic has 0"),
    ):
        with pytest.raises(UsageError, match=why):
            moved(flow, to)
    with pytest.raises(UsageError, match="one of offsets"):
        RewindTarget(earliest=True, latest=True)
    assert commanded(flow, "rewind", "--stream", NAME, "--to-offset", "0=5", "--dry-run") == 0
    assert flow.state().marks == Marks({0: 8, 1: 1}), "what is refused, and a dry run, change nothing"
    assert commanded(flow, "rewind", "--stream", NAME, "--to-offset", "0=5", "--yes") == 0
    flow.land()
    assert flow.ids() == [0, 1, 2, 3, 4, 5, 6, 7, 10], "what was skipped is not lost"


def test_rows_are_corrected_and_added_when_a_range_is_decoded_by_other_rules(stream: Make) -> None:
    flow = stream()
    flow.options["landing"] = {"destination": {"bucket": str(flow.folder), "path": "lake/raw"}}
    flow.produce(good(1), good(2), b'{"id": 3, "name": null}', good(4), BAD)
    strict = {"rules": [{"name": "named", "expr": "name IS NOT NULL"}]}
    upper = {"enrich": {"shout": "upper(name)"}, "schema-evolution": "add-columns"}
    flow.land(**strict)
    assert flow.ids() == [1, 2, 4]
    flow.land(**upper)
    whole = Marks({0: 5})

    looked = corrected(flow, Marks({0: 1}), whole, options=upper, dry_run=True)
    assert (looked.read, looked.changed, looked.missing, looked.rejected) == (4, 2, 1, 1)
    assert looked.version is None
    done = corrected(flow, Marks({0: 1}), whole, options=upper, from_landing=True)
    assert (done.changed, done.missing, done.codes) == (2, 1, {"TYPE_MISMATCH": 1})
    flow.holds("id INT, shout STRING", (1, None), (2, "N2"), (3, None), (4, "N4"))
    again = corrected(flow, Marks({0: 1}), whole, options=upper)
    assert (again.changed, again.missing, again.version) == (0, 0, None)
    with pytest.raises(UsageError, match="has not completed"):
        corrected(flow, Marks(), Marks({0: 6}), options=upper)
    flow.produce(good(9))
    flow.land(**upper)
    assert flow.ids() == [1, 2, 3, 4, 9]


def test_no_copy_comes_back_when_a_range_is_decoded_again(stream: Make) -> None:
    flow = stream()
    flow.options["idempotency"] = {"mode": "fingerprint"}
    flow.produce(good(1), good(1), good(2))
    flow.land()
    assert flow.ids() == [1, 2]
    looked = corrected(flow, Marks(), Marks({0: 3}))
    assert (looked.read, looked.changed, looked.missing, looked.copies, looked.version) == (3, 0, 0, 1, None)
    flow.spark.sql(f"UPDATE {flow.table.sql} SET name = 'other' WHERE id = 2")
    done = corrected(flow, Marks(), Marks({0: 3}))
    assert (done.changed, done.missing, done.copies) == (1, 0, 1)
    flow.holds("id INT, name STRING", (1, "n1"), (2, "n2"))


def test_every_difference_is_reported_when_two_deployments_are_compared(
    stream: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = stream()
    green = replace(
        flow,
        folder=flow.folder / "green",
        options={"destination": {"bucket": str(flow.folder), "path": "lake/green"}},
    )
    green_table = TableRef(path=str(flow.folder / "lake/green"))
    flow.produce(good(1), good(2), good(3))
    green.run()
    flow.produce(good(4))
    flow.land()

    equal = compare(flow.spark, flow.table, green_table)
    assert (equal.equal, equal.same, equal.below) == (True, 3, {0: 3})
    assert not compare(flow.spark, flow.table, green_table, everything=True).equal
    flow.spark.sql(f"UPDATE {green_table.sql} SET name = 'other' WHERE id = 1")
    flow.spark.sql(f"DELETE FROM {green_table.sql} WHERE id = 2")
    flow.spark.sql(f"INSERT INTO {green_table.sql} SELECT * FROM {green_table.sql} WHERE id = 3")
    found = compare(flow.spark, flow.table, green_table)
    assert (found.same, found.different, found.only_left, found.only_right, found.doubled) == (1, 1, 1, 0, 1)
    assert [(p, o) for _, p, o in found.examples["different"]] == [(0, 0)]
    assert compare(flow.spark, flow.table, green_table, ignore=["name"]).different == 0
    former = flow.spark.table(flow.table.sql).where("id = 3").withColumn("stream_topic_id", F.lit("former"))
    former.write.format("delta").mode("append").save(flow.table.path)
    assert compare(flow.spark, flow.table, green_table).only_left == 2, "the rows of a topic that is gone"
    capsys.readouterr()
    assert commanded(flow, "compare", NAME, str(green_table.path)) == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["equal"], result["different"], result["below"]) == (False, 1, {"0": 3})
    assert commanded(flow, "compare", NAME, NAME) == 0
    with pytest.raises(UsageError, match="there is no table"):
        compare(flow.spark, flow.table, TableRef(path=str(flow.folder / "lake/nowhere")))


@pytest.mark.guarantee("case: ops-01", "case: ops-02")
def test_maintenance_leaves_rows_and_marks_alone_while_a_stream_writes(stream: Make) -> None:
    flow = stream()
    for number, mode in enumerate(("kafka-native", "merge", "kafka-native")):
        flow.produce(good(number), BAD)
        flow.land(idempotency={"mode": mode})
    checkpoints = flow.folder / "checkpoints" / NAME
    assert len(list(checkpoints.iterdir())) == 3
    settings = flow.settings()
    target = dead_letter_target(flow.spark, settings, NAME, run=RUN)
    how = Maintenance(today=date(2026, 3, 1))
    flow.produce(*[good(n) for n in range(3, 21)])
    small = {"processing": {"max-batch-size": 6, "batch-size": 1}, "idempotency": {"mode": "merge"}}
    writer = threading.Thread(target=lambda: flow.land(**small))
    writer.start()
    done = list(maintain(flow.spark, target, how))
    writer.join()

    assert flow.ids() == list(range(21))
    assert len(flow.accounted()) == 24
    assert sum(p.files for p in done if p.what == "compacted") >= 3
    newest = flow.state().newest
    assert newest is not None
    list(maintain(flow.spark, target, how))
    assert [folder.name for folder in checkpoints.iterdir()] == [newest.checkpoint]
    with pytest.raises(UsageError, match="below 168 h"):
        Maintenance(today=date(2026, 3, 1), retention_hours=1)


@pytest.mark.guarantee("case: ops-03")
def test_files_do_not_grow_without_limit_when_many_small_batches_are_kept_in_shape(stream: Make) -> None:
    flow = stream()
    one_a_batch = {"processing": {"max-batch-size": 1, "batch-size": 1}}
    for start in (0, 5):
        flow.produce(*[good(n) for n in range(start, start + 5)])
        flow.land(**one_a_batch)
        assert len(flow.reports) == 5
        assert len(flow.rows.inputFiles()) >= 5
        target = dead_letter_target(flow.spark, flow.settings(), NAME, run=RUN)
        list(maintain(flow.spark, target, Maintenance(today=date(2026, 3, 1))))
        assert len(flow.rows.inputFiles()) == 1
        for number in range(18 - flow.state().version):
            # Commits of others, which cost less, up to where a checkpoint of the log is near.
            flow.spark.sql(f"ALTER TABLE {flow.table.sql} SET TBLPROPERTIES ('note' = '{number}')")
    assert flow.ids() == list(range(10))
    log = Path(str(flow.table.path)) / "_delta_log"
    newest = max(int(f.name.split(".")[0]) for f in log.glob("*.checkpoint*.parquet"))
    assert flow.state().version - newest <= 20, "a reader of the log starts at a checkpoint that is near"


def test_closed_dates_are_compacted_first_and_open_ones_when_it_is_asked_for(stream: Make) -> None:
    flow = stream(
        schema={"ddl": "id INT, cob STRING"},
        cob={},
        destination={"bucket": "", "path": "lake/events", "partition-columns": ["cob_date"]},
    )
    flow.options["destination"]["bucket"] = str(flow.folder)
    days = ("2024-01-15", "2024-01-16")
    for number in range(2):
        flow.produce(*[json.dumps({"id": number, "cob": day}).encode() for day in days])
        flow.land()

    def upkept(*, open_partitions: bool) -> list[tuple[int, str]]:
        how = Maintenance(today=date(2024, 1, 16), open_partitions=open_partitions)
        target = dead_letter_target(flow.spark, flow.settings(), NAME, run=RUN)
        done = maintain(flow.spark, target, how)
        return [(d.files, d.detail) for d in done if (d.what, d.table) == ("compacted", str(flow.table))]

    def files() -> dict[str, int]:
        names = flow.rows.selectExpr(
            "CAST(cob_date AS STRING) AS day", "input_file_name() AS file"
        ).distinct()
        return {r["day"]: r["count"] for r in names.groupBy("day").count().collect()}

    assert files() == dict.fromkeys(days, 2)
    assert upkept(open_partitions=False) == [(2, "into 1 files, `cob_date` < DATE'2024-01-16'")]
    assert files() == {days[0]: 1, days[1]: 2}
    assert [removed for removed, _ in upkept(open_partitions=True)] == [0, 2]
    assert files() == dict.fromkeys(days, 1)
