"""`tidemark decode`: the route of payloads in files, by the stream's own decoder and rules."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings
from tidemark.cli.output import print_json, stdout, table_of
from tidemark.contract.errors import UsageError

if TYPE_CHECKING:
    from tidemark.transform import Explained

app = typer.Typer(add_completion=False)

_NOT_KEPT = object()


@app.command()
def decode(
    files: Annotated[list[Path], typer.Argument(help="Files of payloads.")],
    *,
    stream: Annotated[str, typer.Option("--stream", "-s", help="The stream whose schema and rules apply.")],
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a payload, not each file.")] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """A file is one payload, byte for byte; a `.jsonl` file, or any with --lines, is one a line.

    A line of an exported dead letter, which has `value_b64`, is read as its original record; its route is `omitted`
    where the value was too large for the dead letter.
    """
    from tidemark.platform.open_session import session_for
    from tidemark.transform import SchemaRegistry, decode_plan, explain

    settings = open_settings(config, target)
    chosen = settings.stream(stream)
    named = [each for file in files for each in payloads_of(file, lines=lines)]
    needed = chosen.rules or chosen.enrich or chosen.decoder or chosen.cob
    spark = session_for(settings) if needed else None
    plan = decode_plan(chosen, base_dir=settings.config_dir, spark=spark)
    registry = SchemaRegistry.of(chosen.avro)
    kept = [payload for _, payload in named if payload is not _NOT_KEPT]
    explained = iter(explain(spark, kept, plan, registry=registry, topic=chosen.kafka_topic))
    found = [_omitted() if payload is _NOT_KEPT else next(explained) for _, payload in named]
    if as_json:
        print_json(
            [{"payload": name, **_plain(asdict(each))} for (name, _), each in zip(named, found, strict=True)]
        )
    else:
        stdout().print(_table([name for name, _ in named], found))


def payloads_of(file: Path, *, lines: bool) -> list[tuple[str, Any]]:
    """The payloads of a file with their names. Raises UsageError where the file cannot be read."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    if not lines and file.suffix != ".jsonl":
        return [(file.name, content)]
    split = content.split(b"\n")
    kept = split[:-1] if split[-1] == b"" else split
    return [(f"{file.name}:{at}", _of_line(line, f"{file}, line {at}")) for at, line in enumerate(kept, 1)]


def _of_line(line: bytes, place: str) -> Any:
    """The line itself, or the record that an exported line describes. Raises UsageError for one that is malformed."""
    from tidemark.dead_letters.exported import ExportedRecord, read_line

    try:
        exported = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(exported, dict) or "value_b64" not in exported:
        return line
    record = read_line(ExportedRecord, exported, place)
    return record.envelope() if record.value_was_kept else _NOT_KEPT


def _omitted() -> Explained:
    from tidemark.transform import Explained

    message = "the value was too large for its dead letter: only its topic can still have it"
    return Explained("omitted", None, None, message, None, (), None, 0, None)


def _table(names: list[str], found: list[Explained]) -> Table:
    details = [e.message or (json.dumps(_plain(e.row), ensure_ascii=False) if e.row else "") for e in found]
    rows = [(n, e.route, e.code, detail) for n, e, detail in zip(names, found, details, strict=True)]
    return table_of(("payload", "route", "code", "message or row"), rows)


def _plain(value: Any) -> Any:
    """The value as JSON: bytes in base64, times in ISO 8601, decimals as text with all their digits."""
    if isinstance(value, dict):
        return {str(_plain(k)): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
