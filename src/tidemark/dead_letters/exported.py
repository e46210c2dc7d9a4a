"""A line of exported dead letters: `tidemark dead-letters export` writes it; `import` and `tidemark decode` read it."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator, model_validator

from tidemark.contract import records
from tidemark.contract.errors import UsageError


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("is not text in base64")
    return base64.b64decode(value, validate=True)


def _moment(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("is not a time in ISO 8601")
    return datetime.fromisoformat(value)


_Base64 = Annotated[bytes, BeforeValidator(_decoded)]
_Moment = Annotated[datetime, BeforeValidator(_moment)]
_Int = Annotated[int, Field(ge=0, lt=2**31)]
_Bigint = Annotated[int, Field(ge=0, lt=2**63)]


class _Line(BaseModel, strict=True, hide_input_in_errors=True):
    """Keys that it does not know are those of another version, and left alone."""

    @field_validator("*")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            raise ValueError("has half a surrogate pair")
        return value


class _Header(_Line):
    name: str
    value_b64: _Base64 | None


class ExportedRecord(_Line):
    """The record of an exported line: `ENVELOPE_COLUMNS`, bytes in base64. All but `value_b64` may be missing."""

    stream_topic: str | None = None
    stream_topic_id: str | None = None
    stream_partition: _Int | None = None
    stream_offset: _Bigint | None = None
    message_timestamp: _Moment | None = None
    message_timestamp_type: str | None = None
    key_b64: _Base64 | None = None
    value_b64: _Base64 | None
    message_headers: tuple[_Header, ...] | None = Field(None, strict=False)
    payload_omitted: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    """Any BIGINT: a header that a producer wrote says it."""

    @property
    def value_was_kept(self) -> bool:
        """False where a value was too large for the dead letter, so that the line cannot give it."""
        return self.payload_omitted is None or self.value_b64 is not None

    def envelope(self) -> dict[str, Any]:
        """Values of `ENVELOPE_COLUMNS` by name; without those that the line lacks, as a plain payload is."""
        given = self.model_dump(include=set(records.ENVELOPE_COLUMNS) - {records.HEADERS}, exclude_none=True)
        headers = [{"name": h.name, "value": h.value_b64} for h in self.message_headers or ()]
        return {
            **given,
            records.KEY: self.key_b64,
            records.PAYLOAD: self.value_b64,
            records.HEADERS: headers or None,
        }


class ExportedDeadLetter(ExportedRecord):
    """A whole line: the columns of `DEAD_LETTER_DDL`. Its id, coordinates, key and value must be there."""

    letter_id: str
    stream_topic: str
    stream_partition: _Int
    stream_offset: _Bigint
    key_b64: _Base64 | None
    stream: str | None = None
    consumer_group: str | None = None
    failure_code: str | None = None
    failure_stage: str | None = None
    failure_message: str | None = None
    failure_class: str | None = None
    payload_format: str | None = None
    retriable: bool | None = None
    replay_count: _Int | None = None
    written_as: str | None = None
    failed_at: _Moment | None = None
    dlq_topic: str | None = None
    dlq_partition: _Int | None = None
    dlq_offset: _Bigint | None = None

    @model_validator(mode="after")
    def _identified(self) -> Self:
        topic = self.stream_topic_id or self.stream_topic
        if self.letter_id != f"{topic}:{self.stream_partition}:{self.stream_offset}":
            raise ValueError("letter_id is not that of the line's coordinates")
        return self

    def row(self, columns: list[str]) -> tuple[Any, ...]:
        """The values of these columns of `DEAD_LETTER_DDL`, as `platform.local_rows` takes them."""
        named = {
            **self.__dict__,
            records.KEY: self.key_b64,
            records.PAYLOAD: self.value_b64,
            records.HEADERS: [(h.name, h.value_b64) for h in self.message_headers or ()],
        }
        return tuple(named[column] for column in columns)


_Model = TypeVar("_Model", bound=ExportedRecord)


def read_line(model: type[_Model], line: bytes | dict[str, Any], place: str) -> _Model:
    """The line, or its JSON object, as the model. Raises UsageError with the place and every fault of the line."""
    try:
        return model.model_validate(json.loads(line) if isinstance(line, bytes) else line)
    except ValidationError as error:
        faults = "; ".join(": ".join(filter(None, (_path(e["loc"]), e["msg"]))) for e in error.errors())
        raise _malformed(place, faults) from error
    except (ValueError, RecursionError) as error:
        raise _malformed(place, f"no JSON: {error}") from error


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location))


def _malformed(place: str, faults: str) -> UsageError:
    return UsageError(
        f"{place}: not an exported dead letter ({faults})",
        "tidemark dead-letters export writes such lines",
    )
