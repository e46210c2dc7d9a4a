"""The usual forms of values in text: what the fast lanes of JSON and CSV read all at once, and exactly."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from tidemark.transform.decode.arrow_types import offsets_of
from tidemark.transform.fields import FLOATS, INTEGERS, Shape

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
DAY = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
"""A day of the years 0001 to 9999."""
SECOND = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_INTEGER = "-?(?:[0-9]{1,18}|[1-8][0-9]{18}|9[01][0-9]{17})"
_FRACTION = r"(?:\.[0-9]{0,20})?"
_DOUBLE = rf"-?[0-9]{{1,17}}{_FRACTION}(?:[eE][+-]?[0-9]{{1,2}})?"
_FLOAT = rf"-?(?:[0-9]{{1,17}}{_FRACTION}|[0-9]{{1,8}}{_FRACTION}[eE](?:\+?[0-2]|-[01])?[0-9])"
"""Of what these match, nothing is too great for its type."""
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"


def form_of(shape: Shape) -> str | None:
    """The pattern of the values that are read exactly; None of text, which is taken as it stands."""
    kind = shape.data_type
    if isinstance(kind, T.StringType):
        return None
    if isinstance(kind, T.BooleanType):
        return "true|True|TRUE|false|False|FALSE"
    if isinstance(kind, INTEGERS) or shape.epoch:
        return _INTEGER
    if isinstance(kind, FLOATS):
        return _DOUBLE if isinstance(kind, T.DoubleType) else _FLOAT
    if isinstance(kind, T.DecimalType):
        whole = kind.precision - kind.scale
        fraction = rf"(?:\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
        return (rf"-?[0-9]{{1,{whole}}}" if whole else "-?0") + fraction
    if isinstance(kind, T.BinaryType):
        return _BASE64
    if isinstance(kind, T.DateType):
        return DAY
    return f"{DAY}[T ]{SECOND}" + ("Z?" if isinstance(kind, T.TimestampType) else "")


def pattern_of(text: str) -> str:
    """The pattern of this text, matched byte by byte."""
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def binary_or_time(value: pa.StringArray, kind: T.DataType, final: pa.DataType) -> pa.Array:
    """Texts in the form of their type, BINARY, DATE, TIMESTAMP or TIMESTAMP_NTZ, as Arrow's type `final`."""
    if isinstance(kind, T.BinaryType):
        return from_base64(value)
    if isinstance(kind, T.TimestampType):
        # Without an offset it is UTC.
        return pc.ascii_rtrim(value, "Z").cast(pa.timestamp("us")).view(final)
    return value.cast(final)


_SIXTH = np.zeros(256, np.uint32)
_SIXTH[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")] = range(64)


def from_base64(value: pa.StringArray) -> pa.BinaryArray:
    """Padded base64 decoded in one go: each text is whole groups of four."""
    offsets = offsets_of(value)
    data = value.buffers()[2]
    text = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]
    six = _SIXTH[text].reshape(-1, 4)
    whole = six[:, 0] << 18 | six[:, 1] << 12 | six[:, 2] << 6 | six[:, 3]
    decoded = np.stack([whole >> 16, whole >> 8, whole], axis=1).astype(np.uint8).ravel()
    groups = (text == ord("=")).reshape(-1, 4)
    kept = ~np.stack([np.zeros(len(groups), bool), groups[:, 2], groups[:, 3]], axis=1).ravel()
    ends = np.concatenate([[0], np.cumsum(kept)])[(offsets - offsets[0]) // 4 * 3].astype(np.int32)
    buffers = [value.is_valid().buffers()[1], pa.py_buffer(ends), pa.py_buffer(decoded[kept])]
    return pa.BinaryArray.from_buffers(pa.binary(), len(value), buffers)
