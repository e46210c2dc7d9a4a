"""Rows that are read several times, computed once where the server can keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.platform.capabilities import keeps_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def kept(rows: DataFrame, *, eager: bool = True) -> DataFrame:
    """The rows, kept on the server until the frame is forgotten.

    Serverless compute keeps none: there they are computed again at each read, which gives the same rows as
    long as what they are read from cannot change: offsets of Kafka, or a named version of a table.
    """
    return rows.localCheckpoint(eager=eager) if keeps_rows(rows.sparkSession) else rows
