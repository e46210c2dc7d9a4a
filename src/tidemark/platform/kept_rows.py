"""Rows that are read several times, computed once where the server can keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.platform.capabilities import keeps_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def kept(rows: DataFrame, *, eager: bool = True) -> DataFrame:
    """The rows, kept on the server as long as the frame exists.

    Serverless compute keeps none: they are computed again at each read. So their source must not change: offsets
    of Kafka, or a fixed version of a table.
    """
    return rows.localCheckpoint(eager=eager) if keeps_rows(rows.sparkSession) else rows
