"""What a table takes of a row: values that can be the name of a partition's folder, and its constraints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import types as T

LONGEST_NAME = 255
"""Bytes of a file's name, on each file system and in each store that has a limit."""
ESCAPED = "\"#%'*/:=?\\{[]^\x7f" + "".join(map(chr, range(1, 0x20)))
"""Each becomes `%` and two digits in the name of a partition's folder."""
_LONGEST_KEY = 1024
_LONGEST_PATH = 4096
_FILE = 128
"""Bytes of a data file's name in its partition, a change file's folder included."""
_DOTLESS = ("abfs", "abfss", "wasb", "wasbs", "adl")
"""Schemes of stores that refuse a folder whose name ends with a dot."""


@dataclass(frozen=True)
class Constraint:
    """`expression` is true for each row that the table takes."""

    name: str
    expression: str


@dataclass(frozen=True)
class TableLimits:
    """`partitions`: columns of text or bytes among the partition columns. `folders`: whether values name
    folders, `room` how many bytes all of a row's folders may have then, and `dotless` whether none may end
    with a dot.
    """

    partitions: tuple[str, ...] = ()
    folders: bool = True
    room: int = _LONGEST_KEY - 2 * _FILE
    dotless: bool = False
    constraints: tuple[Constraint, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.partitions or self.constraints)


def named_by_value(columns: Iterable[str], schema: T.StructType) -> tuple[str, ...]:
    """Those of the partition columns whose values a producer chooses: text and bytes."""
    wanted = {c.lower() for c in columns}
    return tuple(
        f.name
        for f in schema.fields
        if f.name.lower() in wanted and isinstance(f.dataType, (T.StringType, T.BinaryType))
    )


def room_at(location: str) -> int:
    """Bytes that are left for the folders of a row's partition, in a table that lies there."""
    _, separator, rest = location.partition("://")
    if separator:
        key = rest.partition("/")[2]
        return _LONGEST_KEY - len(key.encode()) - _FILE
    return _LONGEST_PATH - len(location.encode()) - _FILE


def is_dotless(location: str) -> bool:
    return location.partition(":")[0].lower() in _DOTLESS


def escaped_length(text: str) -> int:
    """Bytes of a text in a folder's name."""
    return len(text.encode()) + 2 * len(re.findall(f"[{re.escape(ESCAPED)}]", text))
