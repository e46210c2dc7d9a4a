"""Renders one dead letter for a person: its columns, why it failed, its bytes, and how to replay it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidemark.cli.output import cell_of

if TYPE_CHECKING:
    from tidemark.dead_letters.replay import ReplayResult

_SHOWN_BYTES = 4096
_HEX_WIDTH = 16


def rendering(dead_letter: Any, stream: str) -> Group:
    """The dead letter is a row of `DeadLetterTable.dead_letters`."""
    columns = Table.grid(padding=(0, 2))
    for name in (
        *("letter_id", "stream_topic", "stream_partition", "stream_offset", "message_timestamp"),
        *("failure_code", "failure_stage", "failure_class", "failed_at", "written_as", "status", "attempts"),
        *("status_by", "status_note", "edit"),
    ):
        if dead_letter[name] is not None:
            columns.add_row(Text(name, style="bold"), cell_of(str(dead_letter[name])))
    value = _payload(dead_letter["message_payload"], omitted=dead_letter["payload_omitted"])
    which = f"--stream {shlex.quote(stream)} --letter {shlex.quote(dead_letter['letter_id'])}"
    command = f"tidemark dead-letters replay {which}"
    return Group(
        columns,
        Panel(cell_of(dead_letter["failure_message"] or "no message"), title="why", title_align="left"),
        Panel(_payload(dead_letter["message_key"]), title="key", title_align="left"),
        Panel(value, title="value", title_align="left"),
        cell_of(f"fix and replay:  {command} --edit \"replace(payload, '…', '…')\" --dry-run"),
    )


def _payload(value: bytes | None, *, omitted: int | None = None) -> Text:
    if value is None:
        return Text(f"{omitted} bytes, which were not kept" if omitted else "null", style="dim")
    raw = bytes(value)
    cut = raw[:_SHOWN_BYTES]
    more = f"\n… {len(raw) - len(cut)} more bytes" if len(raw) > len(cut) else ""
    try:
        text = cut.decode("utf-8")
        if all(c.isprintable() or c in "\n\t" for c in text):
            return Text(text + more)
    except UnicodeDecodeError:
        pass
    return Text(as_hex(cut) + more)


def as_hex(raw: bytes) -> str:
    """Offset, bytes in hex, and their printable ASCII characters."""
    lines = []
    for at in range(0, len(raw), _HEX_WIDTH):
        part = raw[at : at + _HEX_WIDTH]
        readable = "".join(chr(b) if 32 <= b < 127 else "." for b in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{_HEX_WIDTH * 3 - 1}}  {readable}")
    return "\n".join(lines)


def in_words(done: ReplayResult) -> str:
    """The result of a replay, or of a dry run, in one sentence."""
    would = "would be " if done.dry_run else ""
    codes = f" ({', '.join(f'{code} {count}' for code, count in done.codes.items())})" if done.codes else ""
    return (
        f"{done.chosen} chosen: {done.resolved} {would}resolved ({done.already} had landed before),"
        f" {done.rejected} {would}rejected again{codes}, {done.parked} {would}parked,"
        f" {done.waiting} not completed by the stream yet, {done.omitted} without their bytes"
    )
