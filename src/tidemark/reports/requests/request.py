"""A report request: its payload on the wire, byte for byte as the source document has it, and its status."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tidemark.contract.errors import TidemarkError, UsageError


class Status(StrEnum):
    SUBMITTED = "SUBMITTED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    """Final; has an `archiveRef`."""
    FAILED = "FAILED"
    """Given up; its event is in the DLQ topic. Can be run again."""
    CANCELLED = "CANCELLED"
    """Final; nothing of it will be archived."""


class BadEvent(TidemarkError):
    """A message that is not a report request. No retry helps."""

    condition = "TIDEMARK_BAD_EVENT"


LARGEST_PARAMETERS = 256 * 1024
"""Bytes: an event must fit a topic of Kafka's usual size of a record."""
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")
_WIRE_NAMES = {
    "requestId": "request_id",
    "reportType": "report_type",
    "requestedBy": "requested_by",
    "parametersJson": "parameters_json",
    "requestedAt": "requested_at",
}


@dataclass(frozen=True)
class ReportRequest:
    request_id: str
    report_type: str
    requested_by: str
    parameters_json: str
    requested_at: str

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Raises `BadEvent` if they are not a JSON object."""
        try:
            parameters = json.loads(self.parameters_json)
        except (ValueError, RecursionError) as error:
            raise BadEvent(f"parametersJson is not JSON: {error}") from error
        if not isinstance(parameters, dict):
            raise BadEvent("parametersJson must be a JSON object")
        return parameters

    def as_wire(self) -> dict[str, str]:
        return {wire: getattr(self, name) for wire, name in _WIRE_NAMES.items()}

    def to_wire(self) -> bytes:
        return json.dumps(self.as_wire(), separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_wire(cls, value: bytes | None) -> ReportRequest:
        """Ignores unknown fields. Raises `BadEvent`, which names every missing one."""
        try:
            body = json.loads(value) if value else None
        except (ValueError, RecursionError) as error:
            raise BadEvent(f"the value is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise BadEvent("the value is not a JSON object")
        if wrong := [n for n in _WIRE_NAMES if not isinstance(body.get(n), str) or not body[n]]:
            raise BadEvent(f"missing, or not text: {', '.join(wrong)}")
        if wrong := [n for n in _WIRE_NAMES if not is_storable(body[n])]:
            raise BadEvent(f"with a NUL or half a surrogate pair: {', '.join(wrong)}")
        return cls(**{name: body[wire] for wire, name in _WIRE_NAMES.items()})


def requested_at(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_storable(text: str) -> bool:
    """Not with half a surrogate pair or a NUL, which no database takes."""
    return _NOT_STORABLE.search(text) is None


def storable(text: str) -> str:
    """The text with `?` for what no database takes."""
    return _NOT_STORABLE.sub("?", text)


def check_text(**texts: str) -> None:
    """Raises `UsageError` for a text that is not storable."""
    for name, text in texts.items():
        if not is_storable(text):
            raise UsageError(f"{name} has a NUL or half a surrogate pair")


def check_parameters(parameters: object) -> str:
    """The canonical text of a request's parameters. Raises `UsageError` if they are not a JSON object, or larger
    than 256 KB.
    """
    if isinstance(parameters, str):
        try:
            parameters = json.loads(parameters)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"the parameters are not JSON: {error}", hint='for example {"accountIds":["A1"]}'
            ) from error
    if not isinstance(parameters, dict):
        raise UsageError("the parameters must be a JSON object", hint='for example {"accountIds":["A1"]}')
    try:
        text = json.dumps(parameters, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the parameters are not JSON: {error}") from error
    check_text(parameters=text)
    if len(text.encode()) > LARGEST_PARAMETERS:
        raise UsageError(f"the parameters are larger than {LARGEST_PARAMETERS} bytes")
    return text
