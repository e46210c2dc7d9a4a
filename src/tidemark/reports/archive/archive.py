"""The archive: each report under the hash of its content, as Parquet and a JSON summary."""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemark.contract.errors import TidemarkError
from tidemark.reports.archive.objects import ObjectStore

if TYPE_CHECKING:
    import pyarrow

REF = re.compile(r"^sha256-[0-9a-f]{64}$")
ROWS, SUMMARY = "report.parquet", "summary.json"


class ArchiveDamaged(TidemarkError):
    condition = "TIDEMARK_ARCHIVE_DAMAGED"


@dataclass(frozen=True)
class Report:
    """The result of a strategy: rows in a fixed order, and a summary for a person. Deterministic."""

    rows: pyarrow.Table
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class Archived:
    """A report read back, its hashes checked."""

    ref: str
    summary: Mapping[str, Any]
    parquet: bytes

    def rows(self) -> list[dict[str, Any]]:
        from pyarrow import parquet

        return list(parquet.read_table(io.BytesIO(self.parquet)).to_pylist())


class Archive:
    """`archiveRef` is the hash of the summary, which holds the hash of the rows and the request.

    The same request over the same table versions gives the same bytes under the same reference, so a
    second run archives nothing new.
    """

    def __init__(self, objects: ObjectStore, *, now: Callable[[], float] = time.time) -> None:
        self._objects = objects
        self._now = now
        self._not_ours: set[str] = set()
        """Reports of another database, found by a sweep: their summaries are read once."""

    def put(self, report: Report, *, request: Mapping[str, Any], inputs: Mapping[str, int]) -> str:
        """Returns the reference once both objects are written, the summary last."""
        from pyarrow import parquet

        buffer = io.BytesIO()
        parquet.write_table(report.rows, buffer, compression="zstd", store_schema=False)
        rows = buffer.getvalue()
        summary = {
            "request": dict(request),
            "inputs": dict(inputs),
            "rowCount": report.rows.num_rows,
            "rowsSha256": hashlib.sha256(rows).hexdigest(),
            "summary": dict(report.summary),
        }
        text = json.dumps(
            summary, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
        ).encode()
        ref = f"sha256-{hashlib.sha256(text).hexdigest()}"
        # Written again even where it exists: its new age keeps the sweeper off until the status row names it.
        self._objects.write(_key(ref, ROWS), rows)
        self._objects.write(_key(ref, SUMMARY), text)
        return ref

    def read(self, ref: str) -> Archived | None:
        """None if there is no such report. Raises `ArchiveDamaged` if its bytes were changed."""
        if not REF.match(ref):
            return None
        text, rows = self._objects.read(_key(ref, SUMMARY)), self._objects.read(_key(ref, ROWS))
        if text is None or rows is None:
            return None
        summary = json.loads(text)
        if (
            f"sha256-{hashlib.sha256(text).hexdigest()}" != ref
            or hashlib.sha256(rows).hexdigest() != summary["rowsSha256"]
        ):
            raise ArchiveDamaged(f"the archived report {ref} was changed after it was archived")
        return Archived(ref, summary, rows)

    def refs(self) -> set[str]:
        return {ref for key, _ in self._objects.listing() if (ref := _ref(key)) is not None}

    def sweep(
        self,
        referenced: Callable[[Iterable[str]], set[str]],
        has_asked: Callable[[Mapping[str, Any]], bool],
        *,
        under_way: Callable[[Mapping[str, Any]], bool] = lambda request: False,
        grace: float,
    ) -> list[str]:
        """Deletes the reports that no status row refers to and that are older than `grace` seconds; returns their
        references. What a killed worker left half written goes as well, also next to a report that stays.

        A report whose request the database does not know (`has_asked`) stays: to a new database, another one or an
        older copy, every report of the archive would be an orphan. So does one whose request is `under_way`: it may be
        archived again at this moment, under the same reference.
        """
        objects: dict[str, dict[str, float]] = {}
        for key, written in self._objects.listing():
            if (ref := _ref(key)) is not None:
                objects.setdefault(ref, {})[key] = written
        old = [ref for ref, keys in objects.items() if max(keys.values()) <= self._now() - grace]
        unreferenced = set(old) - referenced(old) - self._not_ours
        requests = {ref: self._request_of(ref) for ref in unreferenced}
        # Rows without a summary are not a report, whoever wrote them.
        ours = {ref for ref, request in requests.items() if request is None or _holds(has_asked, request)}
        self._not_ours |= unreferenced - ours
        ended = {ref for ref in ours if not _holds(under_way, requests[ref])}
        orphans = sorted(ended - referenced(ended))
        for ref in old:
            half_written = sorted(key for key in objects[ref] if key.split("/")[-1].startswith("."))
            report = [_key(ref, SUMMARY), _key(ref, ROWS)] if ref in orphans else []
            for key in (*half_written, *report):
                self._objects.delete(key)
        return orphans

    def _request_of(self, ref: str) -> Any:
        """What the summary says was asked; None without a summary, empty where it cannot be read."""
        text = self._objects.read(_key(ref, SUMMARY))
        try:
            return None if text is None else json.loads(text)["request"]
        except (ValueError, KeyError, TypeError):
            return {}


def _key(ref: str, name: str) -> str:
    return f"{ref}/{name}"


def _holds(of_request: Callable[[Mapping[str, Any]], bool], request: Any) -> bool:
    """Not of a request that others wrote in another form."""
    try:
        return of_request(request)
    except (ValueError, KeyError, TypeError):
        return False


def _ref(key: str) -> str | None:
    head = key.split("/", 1)[0]
    return head if REF.match(head) else None
