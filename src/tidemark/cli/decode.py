"""`tidemark decode`: the route of payloads in files, by the stream's own decoder and rules."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from rich.table import Table

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings
from tidemark.cli.output import print_json, stdout, table_of
from tidemark.contract import records
from tidemark.contract.errors import UsageError

if TYPE_CHECKING:
    from tidemark.transform import Explained

app = typer.Typer(add_completion=False)


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

    A line of an exported dead letter (`value_b64`, or an envelope's columns) is read as its original record.
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
    found = explain(
        spark, [payload for _, payload in named], plan, registry=registry, topic=chosen.kafka_topic
    )
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
    try:
        exported = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(exported, dict) or "value_b64" not in exported:
        return line
    try:
        return _Exported.model_validate(exported).envelope()
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise UsageError(
            f"{place}: not an exported record ({faults})",
            "tidemark dead-letters export writes such lines; without value_b64 a line is a payload as it is",
        ) from error


def _decoded(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("is not text in base64")
    return base64.b64decode(value, validate=True)


def _moment(value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValueError("is not a time in ISO 8601")
    return datetime.fromisoformat(value)


_Base64 = Annotated[bytes, BeforeValidator(_decoded)]


class _Header(BaseModel, strict=True, hide_input_in_errors=True):
    name: str
    value_b64: _Base64 | None


class _Exported(BaseModel, strict=True, hide_input_in_errors=True):
    """A line of `tidemark dead-letters export`, or one written like it; what it lacks is that of a plain payload."""

    stream_topic: str | None = None
    stream_topic_id: str | None = None
    stream_partition: int | None = Field(None, ge=0, lt=2**31)
    stream_offset: int | None = Field(None, ge=0, lt=2**63)
    message_timestamp: Annotated[datetime, BeforeValidator(_moment)] | None = None
    message_timestamp_type: str | None = None
    key_b64: _Base64 | None = None
    value_b64: _Base64 | None
    message_headers: tuple[_Header, ...] | None = Field(None, strict=False)

    def envelope(self) -> dict[str, Any]:
        given = self.model_dump(include=set(records.ENVELOPE_COLUMNS) - {records.HEADERS}, exclude_none=True)
        headers = [{"name": h.name, "value": h.value_b64} for h in self.message_headers or ()]
        return {
            **given,
            records.KEY: self.key_b64,
            records.PAYLOAD: self.value_b64,
            records.HEADERS: headers or None,
        }


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
