"""Which columns a table cannot be partitioned by, and what to do instead."""

from __future__ import annotations

from pyspark.sql import types as T

MOMENT = (
    "is a TIMESTAMP, which Delta keeps as text without a zone: whoever uses the table under another time zone"
    " sees other moments"
)
BY_DATE = (
    "partition by the date instead: enrich: {day: to_date(the_column)} and partition-columns: [day];"
    " a table that is there already is taken as it is, so create it by hand to have it so all the same"
)


def moments_among(columns: tuple[str, ...], schema: T.StructType) -> list[str]:
    """Those of the columns that are a TIMESTAMP, whose partition values depend on the session's time zone."""
    wanted = {c.lower() for c in columns}
    return [
        f.name for f in schema.fields if f.name.lower() in wanted and isinstance(f.dataType, T.TimestampType)
    ]
