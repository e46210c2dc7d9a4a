"""The location of a table, as one small value for Spark SQL, the log reader and other processes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tidemark.config.stream import Destination

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")
_NAME_PARTS = re.compile(r"`((?:[^`]|``)+)`|([^.`\s]+)")


@dataclass(frozen=True)
class TableRef:
    """A Delta table: a folder (`path`) or a catalog name (`name`), exactly one of them. Picklable.

    >>> TableRef(path="s3a://lake/events").dlq.sql
    'delta.`s3a://lake/events_dlq`'
    >>> TableRef(name="main.bronze.orders").dlq.sql
    '`main`.`bronze`.`orders_dlq`'
    """

    path: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.name is None):
            raise ValueError("a table is a folder or a catalog name, exactly one of them")

    @property
    def sql(self) -> str:
        """The quoted name of the table in Spark SQL."""
        if self.path is not None:
            return f"delta.{_quoted(self.path)}"
        return ".".join(_quoted(part) for part in name_parts(self.name or ""))

    @property
    def dlq(self) -> TableRef:
        """The table of its dead letters: `…_dlq`."""
        return self.sibling("_dlq")

    @property
    def breakers(self) -> TableRef:
        """The table of the breakers' changes next to a metrics table: `…_breakers`."""
        return self.sibling("_breakers")

    def sibling(self, suffix: str) -> TableRef:
        """The table whose last name, or folder, has the suffix."""
        if self.path is not None:
            return TableRef(path=self.path.rstrip("/") + suffix)
        *front, last = name_parts(self.name or "")
        return TableRef(name=".".join([*(_as_written(p) for p in front), _as_written(last + suffix)]))

    @property
    def identity(self) -> str:
        """Equal for two spellings of one table: trailing and doubled slashes, letter case of names."""
        if self.path is not None:
            scheme, separator, rest = self.path.partition("://")
            if not separator:
                return re.sub(r"/+", "/", self.path.removeprefix("file:")).rstrip("/") or "/"
            scheme = "s3" if scheme in ("s3a", "s3n") else scheme
            return f"{scheme}://{re.sub(r'/+', '/', rest).strip('/')}"
        return ".".join(name_parts(self.name or "")).lower()

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine, also a mounted one, and not an object store or a catalog."""
        return self.path is not None and (self.path.startswith(("/", "file:")) or self.path[1:3] == ":\\")

    def __str__(self) -> str:
        return self.path if self.path is not None else self.name or ""


def name_parts(name: str) -> list[str]:
    """The parts of a dotted catalog name; a part may be in backquotes.

    Raises ValueError unless there are one to three parts.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _NAME_PARTS.match(name, position)
        if not match:
            break
        parts.append(match.group(1).replace("``", "`") if match.group(1) else match.group(2))
        position = match.end()
        if position == len(name) and len(parts) <= 3:
            return parts
        if position < len(name) and name[position] != ".":
            break
        position += 1
    raise ValueError(f"`{name}` is not a table name: write `table`, `schema.table` or `catalog.schema.table`")


def is_folder(bucket: str) -> bool:
    """A `bucket` that starts with `/` or `.`, or names a scheme, is a folder; any other is an S3 bucket."""
    return bucket.startswith(("/", ".", "~")) or bool(_SCHEME.match(bucket))


def location(text: str, *, root: Path) -> str:
    """A folder of the configuration as an absolute path, in the spelling of Hadoop; relative ones lie under
    `root`.

    >>> location("file:///data//lake/./x/", root=Path("/"))
    'file:/data/lake/x'
    """
    if not _SCHEME.match(text):
        return _tidy(os.path.join(root, os.path.expanduser(text)))
    scheme, _, rest = text.partition(":")
    authority = ""
    if rest.startswith("//"):
        authority, _, rest = rest[2:].partition("/")
    path = _tidy("/" + rest)
    if authority:
        return f"{scheme.lower()}://{authority}{path.rstrip('/')}"
    return f"{scheme.lower()}:{path}"


def table_ref(destination: Destination, *, root: Path, scheme: str = "s3a") -> TableRef:
    """Resolve a destination. `scheme` is that of S3 buckets: `s3a` on open-source Spark, `s3` on Databricks.
    Raises ValueError unless the destination names exactly one place.
    """
    if destination.table is not None:
        if destination.bucket is not None or destination.path is not None:
            raise ValueError("`table` and `bucket`/`path` both say where the table lies")
        name_parts(destination.table)
        return TableRef(name=destination.table)
    if destination.bucket is None or destination.path is None:
        raise ValueError("write `bucket` and `path`, or `table`")
    bucket = destination.bucket
    base = bucket if is_folder(bucket) else f"{scheme}://{bucket.strip('/')}"
    return TableRef(path=location(f"{base.rstrip('/')}/{destination.path}", root=root))


def _tidy(path: str) -> str:
    # POSIX keeps two slashes at the front, and so does `normpath`.
    return os.path.normpath("/" + path.lstrip("/"))


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


def _as_written(part: str) -> str:
    return part if re.fullmatch(r"[^.`\s]+", part) else _quoted(part)
