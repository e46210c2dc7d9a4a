"""What `tidemark status --watch` and the bars of `ingest --available-now` show."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from tidemark.cli.dead_letters import rendering as dead_letter_rendering
from tidemark.cli.dead_letters.commands import _cell
from tidemark.cli.streams.ingest_progress import IngestProgress
from tidemark.cli.streams.status_rendering import rendering, watched
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import StreamStarted
from tidemark.contract.marks import Marks
from tidemark.streams.status import PartitionStatus, StreamStatus


def status(mark: int, end: int = 100) -> StreamStatus:
    partitions = (PartitionStatus(0, mark, end, end - mark),)
    return StreamStatus(
        "orders", "orders.v1", "lake/orders", "id", partitions, 3, "2026-01-01T00:00:00Z", "batch", 4
    )


def looks(*marks: int) -> tuple[Any, Any]:
    """A look at each mark in turn, and a clock that goes two seconds a look; then Ctrl-C."""
    left, now = list(marks), iter(range(0, 100, 2))

    def look() -> list[StreamStatus]:
        if not left:
            raise KeyboardInterrupt
        return [status(left.pop(0))]

    return look, lambda: float(next(now))


def test_the_watched_picture_shows_lag_and_rate_and_ends_with_ctrl_c() -> None:
    out = io.StringIO()
    look, clock = looks(10, 50)
    watched(
        look, every=0, as_json=False, console=Console(file=out, width=100), sleep=lambda _: None, clock=clock
    )
    text = out.getvalue()
    assert "lag 90" in text
    assert "lag 50; 20 records/s" in text


def test_the_picture_says_what_is_rejected_and_where_the_reasons_are() -> None:
    out = io.StringIO()
    rejecting = replace(status(90), dead_letters=7, breakers={"table": "OPEN", "dead-letters": "CLOSED"})
    Console(file=out, width=220).print(rendering([rejecting, status(100)]))
    text = out.getvalue()
    assert text.count("7 records on the dead letter topic, repeats included; why: ") == 1
    assert (
        "tidemark dead-letters stream --stream orders --available-now"
        " && tidemark dead-letters list --stream orders --summary"
    ) in text
    assert text.count("breaker table: OPEN") == 1


def test_a_hostile_dead_letter_is_only_shown_on_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07 [bold]not ours[/bold] [/] \u202e"
    names = (
        *("letter_id", "stream_topic", "stream_partition", "stream_offset", "message_timestamp"),
        *("failure_code", "failure_stage", "failure_class", "failure_message", "failed_at", "written_as"),
        *("status", "attempts", "status_by", "status_note", "edit"),
    )
    dead_letter = {**dict.fromkeys(names, hostile), "payload_omitted": None}
    dead_letter |= {"message_key": hostile.encode(), "message_payload": hostile.encode()}
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=True, color_system=None)
    console.print(dead_letter_rendering.rendering(dead_letter, "orders"))
    console.print(_cell(dead_letter, "failure_message"))
    text = out.getvalue()
    assert "\x1b]" not in text
    assert "\u202e" not in text
    assert text.count("[bold]not ours[/bold] [/]") >= 10


def test_a_listed_message_does_not_repeat_the_code_in_the_column_before_it() -> None:
    row = {"failure_code": "RULE_VIOLATED", "failure_message": "RULE_VIOLATED: quantity must be positive"}
    assert _cell(row, "failure_message").plain == "quantity must be positive"
    assert _cell({**row, "failure_message": None}, "failure_message").plain == ""


def test_a_program_gets_one_line_of_json_a_look(capsys: pytest.CaptureFixture[str]) -> None:
    look, clock = looks(10, 50, 100)
    watched(look, every=0, as_json=True, sleep=lambda _: None, clock=clock)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line[0]["lag"] for line in lines] == [90, 50, 0]


def report(mark: int, rejected: int = 0) -> BatchReport:
    return BatchReport(
        stream="orders", batch_id=0, read=50, accepted=50 - rejected, rejected=rejected, skipped=0,
        duplicate=0, unknown_fields=0, version=1, marks=Marks({0: mark}), seconds=0.5, ends=Marks({0: 100}),
    )  # fmt: skip


def test_a_bar_moves_with_each_batch_of_a_stream_and_counts_the_bad() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    with IngestProgress(console) as bars:
        bars.emit(StreamStarted("orders", "t", "i", "x", Marks({0: 20}), fresh=True))
        bars.emit(report(60, rejected=3))
        bars.emit(report(100))
        bars.emit(BatchReport("other", 0, 1, 1, 0, 0, 0, 0, 1, Marks()))
    text = out.getvalue()
    assert "80 of 80" in text
    assert "3 rejected" in text
    assert "100/s" in text


def test_nothing_is_drawn_away_from_a_terminal() -> None:
    out = io.StringIO()
    with IngestProgress(Console(file=out)) as bars:
        bars.emit(StreamStarted("orders", "t", "i", "x", Marks(), fresh=True))
        bars.emit(report(60))
    assert out.getvalue().strip() == ""
