"""How `tidemark status` renders streams for a person: once, or updated in place."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tidemark.cli.output import stdout, table_of

if TYPE_CHECKING:
    from tidemark.streams.status import StreamStatus


def rendering(streams: Sequence[StreamStatus], rates: dict[str, float] | None = None) -> Group:
    """A heading, the last commit and the partitions of each stream; with `rates`, records a second."""
    parts: list[RenderableType] = []
    for stream in streams:
        parts.append(Text.assemble((stream.stream, "bold"), f"  {stream.topic} → {stream.table}"))
        if stream.last_commit_version is not None:
            rate = f"; {rates[stream.stream]:,.0f} records/s" if rates and stream.stream in rates else ""
            parts.append(
                Text(
                    f"last commit: version {stream.last_commit_version} ({stream.last_commit_kind}),"
                    f" {stream.last_commit_time}, seq {stream.seq}; lag {stream.lag:,}{rate}"
                )
            )
        if stream.problem:
            parts.append(Text(stream.problem, style="yellow"))
        if stream.dead_letters:
            why = f"tidemark dead-letters list --stream {stream.stream} --summary"
            if not stream.keeps_dead_letters:
                why = f"tidemark dead-letters stream --stream {stream.stream} --available-now && {why}"
            parts.append(
                Text(
                    f"{stream.dead_letters:,} records on the dead letter topic, repeats included; why: {why}",
                    style="yellow",
                )
            )
        not_closed = {name: state for name, state in stream.breakers.items() if state != "CLOSED"}
        if not_closed:
            shown = "; ".join(f"breaker {name}: {state}" for name, state in not_closed.items())
            parts.append(Text(shown, style="bold red"))
        if stream.partitions:
            rows = [(str(p.partition), p.mark, p.end_offset, p.lag) for p in stream.partitions]
            parts.append(table_of(("partition", "mark", "end offset", "lag"), rows))
    return Group(*parts)


def watched(
    read: Callable[[], list[StreamStatus]],
    *,
    every: float,
    as_json: bool,
    console: Console | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Shows what `read` returns, every so many seconds, until Ctrl-C, which is a normal end."""
    console = console or stdout()
    before: dict[str, tuple[float, int]] = {}
    in_place = console.is_terminal and not as_json
    with Live(console=console, auto_refresh=False) if in_place else nullcontext() as live:
        try:
            while True:
                found = read()
                rates = _rates(before, found, clock())
                at = Text(f"{datetime.now(UTC):%H:%M:%S} UTC, Ctrl-C ends", style="dim")
                if as_json:
                    typer.echo(json.dumps([s.as_dict() for s in found], default=str))
                elif live is not None:
                    live.update(Group(rendering(found, rates), at), refresh=True)
                else:
                    console.print(Group(rendering(found, rates), at))
                sleep(every)
        except KeyboardInterrupt:
            return


def _rates(
    before: dict[str, tuple[float, int]], found: Sequence[StreamStatus], now: float
) -> dict[str, float]:
    """Offsets a second that the marks advanced since the previous read; remembers this one in `before`."""
    rates = {}
    for stream in found:
        total = sum(p.mark for p in stream.partitions)
        if stream.stream in before:
            earlier, previous = before[stream.stream]
            rates[stream.stream] = max(0.0, (total - previous) / max(now - earlier, 1e-9))
        before[stream.stream] = (now, total)
    return rates
