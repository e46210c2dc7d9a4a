"""The demo's judgement, by itself: it has to notice what a broken pipeline would do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

from tidemark.cli.app import main
from tidemark.config.decoding import Format
from tidemark.config.reading.load import load_settings
from tidemark.contract.failure_codes import FailureCode
from tidemark.dev.demo.audit import Coordinates, DeadLetter, LandedRow, judge
from tidemark.dev.demo.configuration import STREAM, DemoFiles, write_configuration
from tidemark.dev.demo.subject import subject_of
from tidemark.dev.demo.writer import CommitWatch
from tidemark.dev.producers import SampleRecord
from tidemark.dev.sample_sets import SETS
from tidemark.dev.samples import SampleEvent

SAMPLE = Path(__file__).parents[2] / "conf" / "tidemark.yml"


def at(offset: int, partition: int = 0) -> Coordinates:
    return Coordinates("topic", partition, offset)


GOOD = SampleEvent(SampleRecord(b"good"), Format.JSON, None)
BAD = SampleEvent(SampleRecord(b"bad"), Format.CSV, FailureCode.COLUMN_COUNT)
TOMBSTONE = SampleEvent(SampleRecord(None), Format.AVRO, None)
PRODUCED = {at(0): GOOD, at(1): GOOD, at(2): BAD, at(3): TOMBSTONE}


def row(offset: int, partition: int = 0) -> LandedRow:
    return LandedRow(at(offset, partition), date(2024, 1, 15))


def dead_letter(offset: int, value: bytes | None = b"bad") -> DeadLetter:
    return DeadLetter(at(offset), "COLUMN_COUNT", "decode", "", value)


def test_the_sum_holds_when_every_record_is_where_it_belongs() -> None:
    audit_result = judge(PRODUCED, [row(0), row(1)], [dead_letter(2)])
    assert audit_result.sound
    assert audit_result.line() == "produced 4 = landed 2 + rejected 1 + skipped 1, lost 0, duplicated 0"


def test_a_dead_letter_published_again_counts_once() -> None:
    audit_result = judge(PRODUCED, [row(0), row(1)], [dead_letter(2), dead_letter(2)])
    assert (audit_result.sound, audit_result.rejected, audit_result.published_again) == (True, 1, 1)


@pytest.mark.parametrize(
    ("rows", "dead_letters", "fault"),
    [
        ([row(0)], [dead_letter(2)], {"lost": 1}),
        ([row(0), row(1)], [], {"lost": 1}),
        ([], [], {"lost": 3}),
        ([row(0), row(0), row(1)], [dead_letter(2)], {"duplicated": 1}),
        ([row(0), row(1), row(0, partition=7)], [dead_letter(2)], {"duplicated": 1}),
        ([row(0), row(1), row(2)], [dead_letter(2)], {"duplicated": 1, "misjudged": 1}),
        ([row(0)], [dead_letter(1, b"good"), dead_letter(2)], {"misjudged": 1}),
        ([row(0), row(1), row(3)], [dead_letter(2)], {"misjudged": 1}),
        ([row(0), row(1)], [dead_letter(2, b"other")], {"altered": 1}),
    ],
)
def test_what_went_wrong_is_counted(
    rows: Sequence[LandedRow], dead_letters: Sequence[DeadLetter], fault: dict[str, int]
) -> None:
    audit_result = judge(PRODUCED, rows, dead_letters)
    nothing = dict.fromkeys(("lost", "duplicated", "misjudged", "altered"), 0)
    assert {name: getattr(audit_result, name) for name in nothing} == nothing | fault
    assert not audit_result.sound


def test_the_demo_runs_the_sample_configuration_s_stream(tmp_path: Path) -> None:
    files = DemoFiles(tmp_path)
    write_configuration(files, bootstrap="127.0.0.1:9092", records=100_000)
    demo, sample = load_settings(files.configuration).stream(STREAM), load_settings(SAMPLE).stream(STREAM)
    apart = {"destination", "processing"}
    assert demo.model_dump(exclude=apart) == sample.model_dump(exclude=apart)
    assert demo.destination is not None
    assert sample.destination is not None
    assert demo.destination.partition_columns == sample.destination.partition_columns
    assert load_settings(files.configuration).tables(STREAM)["decoded"].path == str(files.table)


def test_commits_are_counted_from_the_log_and_half_written_ones_wait(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    watch = CommitWatch(tmp_path)
    assert not watch.look()
    log.mkdir()
    own = json.dumps(
        {"tidemark": {"kind": "batch", "stream": "s", "topic_id": "t", "token": "r/0/1", "seq": 1, "base": 0}}
    )
    commit = json.dumps({"commitInfo": {"operationMetrics": {"numOutputRows": "5"}, "userMetadata": own}})
    (log / f"{0:020d}.json").write_text(json.dumps({"commitInfo": {"operation": "CREATE TABLE"}}))
    (log / f"{1:020d}.json").write_text(commit[:20])
    assert watch.look()
    assert (watch.commits, watch.landed) == (0, 0)
    (log / f"{1:020d}.json").write_text(commit)
    assert watch.look()
    assert not watch.look()
    assert (watch.commits, watch.landed) == (1, 5)


def test_a_folder_that_holds_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert main(["demo", "--keep", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", list(SETS))
def test_a_sample_set_makes_a_valid_configuration_and_records_of_both_routes(
    tmp_path: Path, name: str
) -> None:
    files = DemoFiles(tmp_path, subject_of(name))
    write_configuration(files, bootstrap="localhost:9092", records=1000)
    assert main(["check", "--config", str(files.configuration)]) == 0
    events = list(files.subject.events(100))
    assert {event.fault is None for event in events} == {True, False}
    assert sum(event.fault is not None for event in events) == 10


def test_an_unknown_sample_set_is_answered_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--set", "weather"]) == 2
    assert "there are clickstream, trades, telemetry" in capsys.readouterr().err
