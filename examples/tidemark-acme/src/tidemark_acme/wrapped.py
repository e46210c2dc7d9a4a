"""Acme wraps every payload: `{"sent_by": …, "body": "<base64>"}`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def unwrapped(payload: Column) -> Column:
    """The bytes in the wrapper, NULL where there is none: then the record is rejected.

    A Column of a Column, so it is planned with everything else, and no Python runs per record.
    """
    body = F.get_json_object(payload.cast("string"), "$.body")
    return F.try_to_binary(body, F.lit("base64"))
