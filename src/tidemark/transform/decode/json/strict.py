"""The strict lane of JSON: one payload by RFC 8259, to a typed row or to its faults."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.json.values import Number, Repeated, text_of, values_of
from tidemark.transform.decode.outcome import Faults, Outcome, outcome_of, rejected
from tidemark.transform.fields import Field

BLANKS = " \t\r\n"
MAX_DEPTH = 1000
MAX_NUMBER = 1000
"""Characters of a number."""

_USUAL_DEPTH = 100
_STRING = r'"(?:[^"\\]+|\\.)*+(?:"|\\?\Z)'
"""Whether it ends or not: looked for from each quote of a megabyte, the end would take for ever."""
_BRACKETS = re.compile(rf"{_STRING}|[\[{{]|[\]}}]", re.DOTALL)
_LONG_NUMBER = re.compile(rf"{_STRING}|[0-9.eE+-]{{{MAX_NUMBER + 1},}}", re.DOTALL)
_CONSTANT = re.compile(rf"{_STRING}|-?(?:NaN|Infinity)", re.DOTALL)
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class _Refused(Exception):
    """Not JSON. Says what was found, and where in the text."""

    def __init__(self, what: str, at: int) -> None:
        self.what, self.at = what, at


class StrictJson:
    """Decides payloads of one schema."""

    def __init__(self, fields: tuple[Field, ...], *, strict: bool, unknown_fields: str) -> None:
        self._strict, self._unknown_fields = strict, unknown_fields
        self._values = values_of(fields)
        self._known = frozenset(f.name for f in fields)
        self._repeats = False
        self._scan = json.JSONDecoder(
            object_pairs_hook=self._members, parse_int=Number, parse_float=Number, parse_constant=_constant
        ).raw_decode

    def decide(self, payload: bytes, start: int = 0) -> Outcome:
        """What becomes of a payload whose text begins at `start`, behind its frame."""
        try:
            text = payload[start:].decode()
        except UnicodeDecodeError:
            return rejected(Code.INVALID_UTF8, "UTF-8 text")
        body = text.removeprefix("\ufeff").strip(BLANKS)
        if body in ("", "null"):
            return rejected(Code.EMPTY_PAYLOAD, "a JSON object")
        try:
            if body.count("[") + body.count("{") <= _USUAL_DEPTH:
                return self._decided(body)
            with _room_for(body):
                return self._decided(body)
        except _Refused as why:
            before = text[: text.index(body)] + body[: why.at]
            found = f"{why.what} at byte {start + len(before.encode())}"
            return rejected(Code.MALFORMED_JSON, "JSON by RFC 8259", found)

    def unknown(self, payload: bytes) -> int:
        """The unknown fields at the top of a payload that is one object; -1 where it is refused."""
        text = payload.decode().strip(BLANKS)
        if text.count("[") + text.count("{") > _USUAL_DEPTH:
            return -1
        self._repeats = False
        try:
            found, _ = self._parsed(text)
        except _Refused:
            return -1
        return -1 if self._repeats else len(found.keys() - self._known)

    def _decided(self, text: str) -> Outcome:
        self._repeats = False
        found, end = self._parsed(text)
        if end != len(text):
            if isinstance(found, dict):
                return rejected(Code.TRAILING_DATA, "nothing after the object")
            raise _Refused(_character(text, end), end)
        if "\\u" in text and _has_half_a_pair(text):
            return rejected(Code.INVALID_UTF8, "escapes of whole characters")
        if not isinstance(found, dict):
            return rejected(Code.NOT_AN_OBJECT, "a JSON object")
        if self._strict and self._repeats:
            return rejected(Code.DUPLICATE_KEY, "each key once in an object")
        return self._object(found)

    def _parsed(self, text: str) -> tuple[Any, int]:
        if len(text) > MAX_NUMBER:
            _check_numbers(text)
        try:
            return self._scan(text)
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated string"):
                raise _Refused("a string without its end", error.pos) from None
            raise _Refused(_character(text, error.pos), error.pos) from None
        except _Constant:
            at = next(m for m in _CONSTANT.finditer(text) if m[0][0] != '"')
            raise _Refused(at[0], at.start()) from None

    def _members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        self._repeats = True
        return Repeated(pairs)

    def _object(self, found: dict[str, Any]) -> Outcome:
        faults = Faults()
        row = self._values(found, faults, None)
        if found.keys() <= self._known:
            return outcome_of(row, faults, extra={} if self._unknown_fields == "keep" else None)
        unknown = [key for key in found if key not in self._known]
        extra = None
        if self._unknown_fields == "reject":
            for key in unknown:
                faults.add(Code.UNKNOWN_FIELD, key, "a field of the schema")
        elif self._unknown_fields == "keep":
            extra = {key: None if found[key] is None else text_of(found[key]) for key in unknown}
        return outcome_of(row, faults, len(unknown), extra)


class _Constant(Exception):
    """NaN or an infinity."""


def _constant(name: str) -> Any:
    raise _Constant(name)


def _character(text: str, at: int) -> str:
    """What stands there, without a value's text: a field may be secret."""
    if at >= len(text):
        return "the end"
    character = text[at]
    if character.isdigit():
        return "a digit"
    if character.isalpha():
        return "a letter"
    return character if " " < character <= "~" else "a character"


def _check_numbers(text: str) -> None:
    for each in _LONG_NUMBER.finditer(text):
        if each[0][0] != '"':
            raise _Refused(f"a number of more than {MAX_NUMBER} characters", each.start())


@contextmanager
def _room_for(text: str) -> Iterator[None]:
    """Refuses what is nested too deep, and makes room for what is nested deep."""
    depth = deepest = 0
    for each in _BRACKETS.finditer(text):
        first = each[0][0]
        if first in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if depth > MAX_DEPTH:
                raise _Refused(f"a value nested deeper than {MAX_DEPTH}", each.start())
        elif first in "]}":
            depth -= 1
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 5 * deepest)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _has_half_a_pair(text: str) -> bool:
    """Whether valid JSON has half a surrogate pair written as an escape, anywhere."""
    return _HALF.search(_PAIR.sub("", text.replace("\\\\", "__"))) is not None
