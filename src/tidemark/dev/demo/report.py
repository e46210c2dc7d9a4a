"""The output of the demo: steps while it runs, tables at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from tidemark.config.decoding import Format
from tidemark.dev.demo.audit import AuditResult, Coordinates, DeadLetter, LandedRow
from tidemark.dev.demo.writer import WriterRun
from tidemark.dev.samples import SampleEvent
from tidemark.reports.archive.archive import Archived

_WIDTH_OF_A_PIPE = 120


class Move(Protocol):
    def __call__(self, done: int, note: str = "") -> None: ...


def demo_console() -> Console:
    return Console(highlight=False, width=None if Console().is_terminal else _WIDTH_OF_A_PIPE)


class Narrator:
    """Prints every step, and progress as a bar on a terminal or as single lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._step = 0

    def step(self, title: str) -> None:
        self._step += 1
        self.console.print(Rule(Text(f"{self._step}. {title}", style="bold"), align="left", style="dim"))

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(f"   {text}", style=style), soft_wrap=True)

    def show(self, *tables: Table) -> None:
        """Print the tables, with an empty line before each."""
        for table in tables:
            self.console.print()
            self.console.print(table)

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Move]:
        """A function that moves the bar to a number, with a note; away from a terminal it prints a new line."""
        terminal = self.console.is_terminal
        columns = (
            TextColumn("   {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, disable=not terminal) as progress:
            task = progress.add_task(title, total=total)
            printed = -1

            def move(done: int, note: str = "") -> None:
                nonlocal printed
                progress.update(task, completed=done, description=f"{title}{note}")
                if not terminal and done != printed:
                    self.say(f"{title} {done:,} of {total:,}{note}")
                printed = done

            yield move


def table_of_runs(runs: Sequence[WriterRun], reasons: Sequence[str]) -> Table:
    table = _table("The writer's runs", "run", "ended", "commits", "rows", "seconds")
    for run, reason in zip(runs, reasons, strict=True):
        outcome, style = (f"killed with SIGKILL {reason}", "red") if run.killed else ("all read", "green")
        ended = Text(outcome, style=style)
        table.add_row(str(run.number), ended, str(run.commits), f"{run.landed:,}", f"{run.seconds:.0f}")
    return table


def table_of_landed(
    produced: Mapping[Coordinates, SampleEvent], rows: Sequence[LandedRow], *, day: str
) -> Table:
    produced_formats = {event.format for event in produced.values()}
    formats = [each for each in Format if each in produced_formats]
    counts: dict[str, Counter[Format]] = defaultdict(Counter)
    for row in rows:
        if row.at in produced:
            counts[str(row.day)][produced[row.at].format] += 1
    table = _table(f"Landed rows by {day}", day, *[f.value for f in formats], "rows")
    for on in sorted(counts):
        of_day = counts[on]
        table.add_row(on, *[f"{of_day[f]:,}" for f in formats], f"{of_day.total():,}")
    total = sum(counts.values(), Counter[Format]())
    table.add_section()
    table.add_row("", *[f"{total[f]:,}" for f in formats], f"{total.total():,}", style="bold")
    return table


def table_of_rejected(
    produced: Mapping[Coordinates, SampleEvent], dead_letters: Sequence[DeadLetter]
) -> Table:
    """A line for each failure code: the number of records, their formats, and the first one as an example."""
    by_code: dict[str, dict[Coordinates, DeadLetter]] = defaultdict(dict)
    for dead_letter in sorted(dead_letters):
        by_code[dead_letter.code].setdefault(dead_letter.at, dead_letter)
    table = _table(
        "Rejected records by failure code", "code", "records", "made as", "an example", "its message"
    )
    table.columns[3].overflow = table.columns[4].overflow = "fold"
    for code, found in sorted(by_code.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        formats = {produced[at].format.value for at in found if at in produced}
        example = next(iter(found.values()))
        table.add_row(
            code,
            f"{len(found):,}",
            " ".join(sorted(formats)),
            Text(_shown(example.value), style="yellow"),
            Text(example.message.removeprefix(f"{code}: ")),
        )
    return table


def table_of_checks(audit_result: AuditResult) -> Table:
    table = _table("The check: table ∪ DLQ topic against what was produced", "question", "answer", "")
    for question, count in (
        ("records in neither table nor DLQ, tombstones aside", audit_result.lost),
        ("records that are there twice, or were never produced", audit_result.duplicated),
        ("good records rejected, bad ones landed", audit_result.misjudged),
        ("dead letters whose bytes are not the produced ones", audit_result.altered),
    ):
        mark = Text("no" if count else "ok", style="bold red" if count else "bold green")
        table.add_row(question, f"{count:,}" if count else "none", mark)
    return table


def table_of_report(archived: Archived) -> Table:
    """The archived rows."""
    rows = archived.rows()
    table = _table(str(archived.summary["request"]["reportType"]), *(rows[0] if rows else ["(no rows)"]))
    for row in rows:
        table.add_row(*(f"{v:,}" if isinstance(v, int) else str(v) for v in row.values()))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in columns:
        numeric = name in ("commits", "rows", "seconds", "records", "accounts", *Format)
        table.add_column(name, justify="right" if numeric else "left")
    return table


def _shown(value: bytes | None, limit: int = 70) -> str:
    """The bytes in readable form, on one line."""
    if value is None:
        return "(no value)"
    text = "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02x}" for b in value[:limit])
    return (text or "(empty)") + ("…" if len(value) > limit else "")
