"""Which format a payload is in, among those that the stream supports.

The rule is the one of `kafka-native-idempotency.md` 2.1, on bytes: `{…}` or `[…]` is JSON; text with the
stream's delimiter and no `{` is CSV; the rest is Avro. A BOM and white space around do not count. With
one supported format there is no detection. docs/failure-codes.md lists the shapes that stay ambiguous.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.config.decoding import CsvDialect, Format

BOM = "\ufeff".encode()
BLANKS = b" \t\r\n"
_CONTROL = re.compile(rb"[\x00-\x08\x0B\x0C\x0E-\x1F]")
_AROUND = "[ \\t\\r\\n]*"
_REST = (
    r"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    r"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    r"|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
"""Characters of more than one byte, as RFC 3629 allows them."""
_UTF8 = rf"^(?:[\x00-\x7f]|{_REST})*\z"
_TEXT = rf"^(?:[\t\n\r\x20-\x7f]|{_REST})*\z"


def valid_utf8(payloads: pa.BinaryArray) -> pa.BooleanArray:
    """Which of them are UTF-8."""
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        # A pattern on bytes is matched byte by byte.
        return pc.match_substring_regex(payloads, _UTF8)
    return pa.repeat(pa.scalar(value=True), len(payloads))


def is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def format_of(payload: bytes, formats: tuple[Format, ...], dialect: CsvDialect) -> str | None:
    """The format's name, or None where none of the supported ones fits."""
    if len(formats) == 1:
        return formats[0].value
    text = payload.removeprefix(BOM)
    trimmed = text.strip(BLANKS)
    opened, closed = trimmed[:1], trimmed[-1:]
    if Format.AVRO in formats and (not is_utf8(text) or _CONTROL.search(text)):
        return Format.AVRO.value
    if Format.JSON in formats and opened + closed in (b"{}", b"[]") and len(trimmed) > 1:
        return Format.JSON.value
    if Format.CSV in formats and dialect.delimiter.encode() in text and b"{" not in text:
        return Format.CSV.value
    if Format.AVRO in formats:
        return Format.AVRO.value
    if Format.JSON in formats and opened in (b"{", b"["):
        return Format.JSON.value
    return None


def formats_of(payloads: pa.BinaryArray, formats: tuple[Format, ...], dialect: CsvDialect) -> pa.StringArray:
    """As `format_of`, of each payload. None is NULL."""
    if len(formats) == 1:
        return pa.repeat(pa.scalar(formats[0].value), len(payloads))
    rest: pa.Array = pa.nulls(len(payloads), pa.string())
    if Format.AVRO in formats:
        rest = pa.repeat(pa.scalar(Format.AVRO.value), len(payloads))
    elif Format.JSON in formats:
        rest = _where(_matches(payloads, r"[{\[]"), Format.JSON, rest)
    if Format.CSV in formats:
        # No delimiter is a byte of a BOM.
        line = pc.and_not(pc.match_substring(payloads, dialect.delimiter), pc.match_substring(payloads, "{"))
        rest = _where(line, Format.CSV, rest)
    if Format.JSON in formats:
        ending = rf"\}}{_AROUND}\z", rf"\]{_AROUND}\z"
        objects = pc.and_(_matches(payloads, r"\{"), pc.match_substring_regex(payloads, ending[0]))
        arrays = pc.and_(_matches(payloads, r"\["), pc.match_substring_regex(payloads, ending[1]))
        rest = _where(pc.or_(objects, arrays), Format.JSON, rest)
    if Format.AVRO in formats:
        rest = _where(pc.invert(pc.match_substring_regex(payloads, _TEXT)), Format.AVRO, rest)
    return rest


def _matches(payloads: pa.BinaryArray, start: str) -> pa.BooleanArray:
    """Which of them start so, after a BOM and blanks."""
    return pc.match_substring_regex(payloads, rf"^(?:\xef\xbb\xbf)?{_AROUND}{start}")


def _where(mask: pa.BooleanArray, format_: Format, rest: pa.Array) -> pa.Array:
    return pc.if_else(mask, pa.scalar(format_.value), rest)
