"""What the demo prints: steps while it works, tables when it is done."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

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


def demo_console() -> Console:
    return (
        Console(highlight=False)
        if Console().is_terminal
        else Console(width=_WIDTH_OF_A_PIPE, highlight=False)
    )


class Narrator:
    """Says every step, shows a bar on a terminal and single lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._step = 0

    def step(self, title: str) -> None:
        self._step += 1
        self.console.print(Rule(Text(f"{self._step}. {title}", style="bold"), align="left", style="dim"))

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(f"   {text}", style=style), soft_wrap=True)

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Bar]:
        bar = Bar(self, title, total)
        try:
            bar.open()
            yield bar
        finally:
            bar.close()


class Bar:
    def __init__(self, narrator: Narrator, title: str, total: int) -> None:
        self._narrator = narrator
        self._title = title
        self._total = total
        self._shown = -1
        self._progress = Progress(
            TextColumn("   {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=narrator.console,
            disable=not narrator.console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=total)

    def open(self) -> None:
        self._progress.start()

    def close(self) -> None:
        self._progress.stop()

    def to(self, done: int, note: str = "") -> None:
        """Move to `done`; away from a terminal, a line for it when it is another number than before."""
        self._progress.update(self._task, completed=done, description=f"{self._title}{note}")
        if not self._narrator.console.is_terminal and done != self._shown:
            self._narrator.say(f"{self._title} {done:,} of {self._total:,}{note}")
        self._shown = done


def table_of_runs(runs: Sequence[WriterRun], reasons: Sequence[str]) -> Table:
    table = _table("The writer's runs", "run", "ended", "commits", "rows", "seconds")
    for run, reason in zip(runs, reasons, strict=True):
        ended = (
            Text(f"killed with SIGKILL {reason}", style="red")
            if run.killed
            else Text("all read", style="green")
        )
        table.add_row(str(run.number), ended, str(run.commits), f"{run.landed:,}", f"{run.seconds:.0f}")
    return table


def table_of_landed(
    produced: Mapping[Coordinates, SampleEvent], rows: Sequence[LandedRow], *, day: str
) -> Table:
    made = {event.format for event in produced.values()}
    formats = [each for each in Format if each in made]
    counts: dict[str, Counter[Format]] = defaultdict(Counter)
    for row in rows:
        if row.at in produced:
            counts[str(row.day)][produced[row.at].format] += 1
    table = _table(f"What landed, by {day}", day, *[f.value for f in formats], "rows")
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
    """One line a failure code: how many records, of which formats, and the first as an example."""
    by_code: dict[str, dict[Coordinates, DeadLetter]] = defaultdict(dict)
    for dead_letter in sorted(dead_letters):
        by_code[dead_letter.code].setdefault(dead_letter.at, dead_letter)
    table = _table("What was rejected, and why", "code", "records", "made as", "an example", "its message")
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
    """The archived rows, as they are."""
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
    """Bytes as a person can read them, on one line."""
    if value is None:
        return "(no value)"
    text = "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02x}" for b in value[:limit])
    return (text or "(empty)") + ("…" if len(value) > limit else "")
