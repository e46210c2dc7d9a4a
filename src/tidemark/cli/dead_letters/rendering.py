"""One dead letter for a person: what it is, why it failed, its bytes, and how to replay it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidemark.contract.escaping import escape_control_characters

if TYPE_CHECKING:
    from tidemark.dead_letters.replay import ReplayResult

_SHOWN_BYTES = 4096
_HEX_WIDTH = 16


def rendering(dead_letter: Any, stream: str) -> Group:
    """In: a row of `DeadLetterTable.letters`."""
    facts = Table.grid(padding=(0, 2))
    for name in (
        *("letter_id", "stream_topic", "stream_partition", "stream_offset", "message_timestamp"),
        *("failure_code", "failure_stage", "failure_class", "failed_at", "written_as", "status", "attempts"),
        *("status_by", "status_note", "edit"),
    ):
        if dead_letter[name] is not None:
            facts.add_row(Text(name, style="bold"), Text(escape_control_characters(str(dead_letter[name]))))
    why = Text(escape_control_characters(dead_letter["failure_message"] or "no message"))
    which = f"--stream {shlex.quote(stream)} --letter {shlex.quote(dead_letter['letter_id'])}"
    command = f"tidemark dead-letters replay {which}"
    return Group(
        facts,
        Panel(why, title="why", title_align="left"),
        Panel(_payload(dead_letter["message_key"]), title="key", title_align="left"),
        Panel(
            _payload(dead_letter["message_payload"], omitted=dead_letter["payload_omitted"]),
            title="value",
            title_align="left",
        ),
        Text(
            f"fix and replay:  {escape_control_characters(command)} --edit \"replace(payload, '…', '…')\" --dry-run"
        ),
    )


def _payload(value: bytes | None, *, omitted: int | None = None) -> Text:
    if value is None:
        return Text(f"{omitted} bytes, which were kept nowhere" if omitted else "null", style="dim")
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
    """Offset, bytes in hex, and what of them is printable ASCII."""
    lines = []
    for at in range(0, len(raw), _HEX_WIDTH):
        part = raw[at : at + _HEX_WIDTH]
        readable = "".join(chr(b) if 32 <= b < 127 else "." for b in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{_HEX_WIDTH * 3 - 1}}  {readable}")
    return "\n".join(lines)


def in_words(done: ReplayResult) -> str:
    """What a replay came to, or would."""
    would = "would be " if done.dry_run else ""
    codes = f" ({', '.join(f'{code} {count}' for code, count in done.codes.items())})" if done.codes else ""
    return (
        f"{done.chosen} chosen: {done.resolved} {would}resolved ({done.already} had landed before),"
        f" {done.rejected} {would}rejected again{codes}, {done.parked} {would}parked,"
        f" {done.waiting} not completed by the stream yet, {done.omitted} without their bytes"
    )
