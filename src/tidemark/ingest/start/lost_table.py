"""A table without marks whose stream has completed batches: it was dropped, or the destination changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.contract.errors import LedgerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.sink.table import TableInfo
    from tidemark.streams.target import Target


def refuse_rows_without_marks(spark: SparkSession, target: Target, info: TableInfo) -> None:
    """Raises LedgerError for a table without marks that has rows."""
    if info.files and spark.table(target.table.sql).limit(1).count():
        raise LedgerError(
            f"{target.table} has rows, but no marks of Tidemark: a new start could land everything twice",
            f"take the marks from the rows: {target.adopt}",
        )


def refuse_lost_table(target: Target) -> None:
    """Raises LedgerError where a checkpoint of the stream has completed a batch, though its table is absent,
    or has neither rows nor marks: a person decides whether all lands again, or nothing.

    Without a checkpoint it is a first start.
    """
    found = _completed(target)
    if found is None:
        return
    path, batch = found
    raise LedgerError(
        f"{target.table} has neither rows nor marks, but stream {target.name} has landed records before:"
        f" checkpoint {path} has completed batch {batch}; the table was dropped, or the destination changed",
        "bring the table back; or begin with this one: all that the topic has lands again after"
        f" {target.adopt} --marks earliest, only what comes from now on after --marks latest",
    )


def _completed(target: Target) -> tuple[str, int] | None:
    """The stream's newest checkpoint that has completed a batch, and that batch's number."""
    folder = target.checkpoint("").path.rstrip("/")
    names = target.checkpoint("").files.names(folder)
    for name in sorted(names, key=lambda n: n.rpartition("-")[0].rpartition("-")[2], reverse=True):
        checkpoint = target.checkpoint(name)
        batch = checkpoint.completed()
        if batch is not None:
            return checkpoint.path, batch
    return None
