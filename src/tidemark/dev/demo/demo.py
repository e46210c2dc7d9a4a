"""The demo: a broker, records of every kind, a writer killed twice, and a check of every record."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tidemark.config.decoding import Format
from tidemark.config.reading.load import load_settings
from tidemark.contract.errors import UsageError
from tidemark.contract.failure_codes import FailureCode
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.demo.audit import AuditResult, Coordinates, dead_letters_of, judge, landed_rows
from tidemark.dev.demo.configuration import PARTITIONS, DemoFiles, write_configuration
from tidemark.dev.demo.replay import fix_and_replay
from tidemark.dev.demo.report import (
    Move,
    Narrator,
    table_of_checks,
    table_of_landed,
    table_of_rejected,
    table_of_report,
    table_of_runs,
)
from tidemark.dev.demo.subject import subject_of
from tidemark.dev.demo.writer import CommitWatch, WriterRun, run_writer, tail
from tidemark.dev.producers import SampleRecord, create_topic, produce
from tidemark.dev.samples import SampleEvent
from tidemark.monitoring.logging import configure_logs
from tidemark.platform.jvm.jars import jar_paths, tidemark_home
from tidemark.platform.jvm.java import find_java
from tidemark.platform.session import local_session
from tidemark.reports.run import report_now
from tidemark.source.topics import KafkaAdmin

_MOST_RUNS = 5


@dataclass(frozen=True)
class Kill:
    """A point of the batch at which a run of the writer is killed, and the state that it leaves."""

    faults: str
    when: str
    consequence: str


KILLS = (
    Kill(
        "after-append=kill@3",
        "between the rows and their dead letters",
        "The table has the batch's rows, the DLQ topic not yet its dead letters.",
    ),
    Kill(
        "after-publish=kill@2",
        "between the dead letters and the checkpoint",
        "Rows and dead letters are out, but Spark's checkpoint does not know of the batch.",
    ),
)


def run_demo(
    console: Console, *, records: int, keep: Path | None = None, sample_set: str | None = None
) -> AuditResult:
    """The whole demo in a temporary folder, or in `keep`, which stays. Every started process has ended
    when it returns or raises. `sample_set` is one of `fixtures/sets`, instead of events of every format.

    Raises:
        UsageError: `keep` is not empty, or there is no such set.
        WriterFailed: the writer ended by itself with an error.
    """
    narrator, subject = Narrator(console), subject_of(sample_set)
    with _folder(keep, narrator) as folder:
        files = DemoFiles(folder, subject)
        narrator.step("Java and jars")
        java = find_java()
        jars = jar_paths("spark", "broker")
        narrator.say(
            f"Java {java.version} in {java.home}; {len(jars)} jars of Spark and Kafka in {tidemark_home() / 'jars'}"
        )

        narrator.step("A real Kafka broker")
        with EmbeddedBroker(files.broker) as broker:
            narrator.say(f"answers on {broker.bootstrap}; all files of this demo are in {folder}")
            # The records are dated 2024: the usual week of retention would delete them at once.
            create_topic(broker.bootstrap, subject.topic, PARTITIONS, retention_ms="-1")
            write_configuration(files, bootstrap=broker.bootstrap, records=records)
            configure_logs(load_settings(files.configuration).logging)
            narrator.say(
                f"topic {subject.topic} with {PARTITIONS} partitions; configuration {files.configuration}"
            )
            produced = _produce(narrator, files, broker.bootstrap, records)
            runs = _land(narrator, files, produced)
            with standard_error_into(files.folder / "demo.log"):
                audit_result = _audit(narrator, files, broker.bootstrap, produced, runs)
                replayed = fix_and_replay(narrator, files)
                _report(narrator, files)
        if keep is not None:
            _explain_kept_folder(narrator, files, broker.bootstrap)
    since = f"; {replayed} of the rejected has landed since, replayed" if replayed else ""
    console.print(
        audit_result.line() + since, soft_wrap=True, style="bold green" if audit_result.sound else "bold red"
    )
    return audit_result


@contextmanager
def standard_error_into(log_file: Path) -> Iterator[None]:
    """Send what this process and its JVM write to standard error into a file, and show its end on an error.

    Spark and the JVM write log lines and warnings there, which would stand between the demo's tables.
    """
    kept = os.dup(2)
    with log_file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    except BaseException:
        os.dup2(kept, 2)
        sys.stderr.write(f"{tail(log_file)}\n")
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _produce(
    narrator: Narrator, files: DemoFiles, bootstrap: str, records: int
) -> dict[Coordinates, SampleEvent]:
    narrator.step(f"Records: {files.subject.description}")
    events: list[SampleEvent] = []
    topic_name = files.subject.topic
    with narrator.bar("produced", records) as move:

        def noted() -> Iterator[SampleRecord]:
            for event in files.subject.events(records):
                events.append(event)
                if len(events) % 25_000 == 0 or len(events) == records:
                    move(len(events))
                yield event.record

        acknowledged = produce(bootstrap, topic_name, noted())
    topic = KafkaAdmin(load_settings(files.configuration).kafka).describe(topic_name).id
    bad = sum(event.fault is not None for event in events)
    none = sum(event.record.value is None for event in events)
    narrator.say(f"{records - bad - none:,} good, {bad:,} bad, {none:,} tombstones; all acknowledged")
    places = (Coordinates(topic, place.partition, place.offset) for place in acknowledged)
    return dict(zip(places, events, strict=True))


def _land(narrator: Narrator, files: DemoFiles, produced: dict[Coordinates, SampleEvent]) -> list[WriterRun]:
    watch = CommitWatch(files.table)
    should_land = sum(e.fault is None and e.record.value is not None for e in produced.values())
    runs: list[WriterRun] = []
    while not runs or runs[-1].killed:
        number = len(runs) + 1
        if number > _MOST_RUNS:
            raise UsageError(
                "the writer is killed again and again", "did another program set TIDEMARK_FAULTS?"
            )
        kill = KILLS[number - 1] if number <= len(KILLS) else None
        narrator.step(f"The writer, run {number}" + (", to be killed" if kill else ", to the end"))
        narrator.say(f"tidemark ingest --config {files.configuration} --available-now")
        with narrator.bar("rows in the table", should_land) as move:
            move(watch.landed)

            def on_commit(move: Move = move) -> None:
                move(watch.landed, f", {watch.commits} commits")

            run = run_writer(files, number, watch, faults=kill.faults if kill else "", on_commit=on_commit)
        runs.append(run)
        if run.killed and kill:
            narrator.say(f"Killed with SIGKILL {kill.when}. {kill.consequence}", "red")
        elif kill:
            narrator.say("It ended before it could be killed.", "yellow")
    only_marks = watch.commits - watch.with_rows
    narrator.say(
        f"All read, in {watch.commits} commits: {watch.with_rows} with rows, {only_marks} that only move marks,"
        " such as at a start or of a batch whose rows were there already.",
        "green",
    )
    return runs


def _audit(
    narrator: Narrator,
    files: DemoFiles,
    bootstrap: str,
    produced: dict[Coordinates, SampleEvent],
    runs: list[WriterRun],
) -> AuditResult:
    narrator.step("The contents of the table and of the DLQ topic")
    dlq, day = f"{files.subject.topic}-dlq", files.subject.day
    narrator.say(f"reading {files.table} with Spark, and topic {dlq}")
    # Spark's own folder for tables by name would stay behind where the demo was started.
    local_session("tidemark-demo", extra_conf={"spark.sql.warehouse.dir": str(files.folder / "warehouse")})
    rows = landed_rows(files.table, day=day)
    dead_letters = dead_letters_of(bootstrap, dlq)
    audit_result = judge(produced, rows, dead_letters)
    reasons = [kill.when for kill in KILLS] + [""] * len(runs)
    narrator.show(
        table_of_runs(runs, reasons[: len(runs)]),
        table_of_landed(produced, rows, day=day),
        table_of_rejected(produced, dead_letters),
        table_of_checks(audit_result),
    )
    malformed_avro = {x.at for x in dead_letters if x.code == FailureCode.MALFORMED_AVRO}
    other_format = sum(at in produced and produced[at].format is not Format.AVRO for at in malformed_avro)
    if other_format:
        narrator.say(
            f"{other_format:,} of the MALFORMED_AVRO were produced as broken JSON: on a topic with all three"
            " formats, what looks like neither JSON nor CSV is read as Avro."
        )
    if audit_result.published_again:
        narrator.say(
            f"{audit_result.published_again:,} dead letters were published again after a kill, as at-least-once"
            " delivery allows. They carry the coordinates of their record, so each counts once."
        )
    narrator.console.print()
    return audit_result


def _report(narrator: Narrator, files: DemoFiles) -> None:
    """Requests a report over the landed table as a client does: through the topic, the claim, the archive."""
    narrator.step("A report over the landed table")
    narrator.say(
        "a request through the topic for reports, bim-report-requested, processed by a worker in this process"
    )
    archived = report_now(load_settings(files.configuration), "VOLUME", requested_by="demo")
    narrator.show(table_of_report(archived))
    narrator.say(f"COMPLETED; its archiveRef is {archived.ref}")
    narrator.console.print()


@contextmanager
def _folder(keep: Path | None, narrator: Narrator) -> Iterator[Path]:
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="tidemark-demo-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            narrator.say(f"{folder} is removed; --keep FOLDER keeps what is in it")
        return
    keep = keep.expanduser().absolute()
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError(f"{keep} is not an empty folder", "name one that does not exist yet with --keep")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


def _explain_kept_folder(narrator: Narrator, files: DemoFiles, bootstrap: str) -> None:
    port = bootstrap.rpartition(":")[2]
    narrator.say(f"Kept in {files.folder}. To continue with it:")
    narrator.say(f"tidemark broker start --folder {files.broker} --port {port}")
    narrator.say(f"tidemark status --config {files.configuration}")
    narrator.console.print()
