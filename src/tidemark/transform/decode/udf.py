"""The decoder in Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.contract import records
from tidemark.transform.content import headers_or_empty
from tidemark.transform.decode.decoder import Decoder
from tidemark.transform.decode.installed_decoders import decoder_named
from tidemark.transform.plan import DecodePlan

DECODED = "_decoded"
"""The column of what became of the payload."""
_TEXTS = ("field", "expected", "found", "rule", "message")
FAILURE_TYPE = T.StructType(
    [T.StructField(n, T.StringType()) for n in ("code", "stage", "message", "format")]
    + [T.StructField("faults", T.ArrayType(T.StructType([T.StructField(n, T.StringType()) for n in _TEXTS])))]
)
_UNWRAPPED = "_unwrapped"
_WITH_HEADERS = "_with_headers"
_HEADERS_AT = records.ENVELOPE_COLUMNS.index(records.HEADERS)


def decoded(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
    """`ENVELOPE_COLUMNS` untouched, and `DECODED`: what `Decoder.decode` makes of the payload.

    By `mapInArrow`, which Spark has had since 3.3, and runs once whatever is asked of its result later.
    """
    columns = [F.col(c) for c in records.ENVELOPE_COLUMNS]
    given = columns.copy()
    # Arrow for Java writes a NULL list in the time of all those before it: an empty one goes in its place.
    given[_HEADERS_AT] = headers_or_empty().alias(records.HEADERS)
    given.append(F.col(records.HEADERS).isNotNull().alias(_WITH_HEADERS))
    if plan.decoder:
        given.append(decoder_named(plan.decoder)(F.col(records.PAYLOAD)).cast("binary").alias(_UNWRAPPED))
    decoder = Decoder(plan)
    kind = T.StructType(
        [
            T.StructField("row", plan.decoded_schema),
            T.StructField("failure", FAILURE_TYPE),
            T.StructField("unknown", T.IntegerType()),
            T.StructField("extra", T.MapType(T.StringType(), T.StringType())),
            T.StructField("format", T.StringType()),
            T.StructField("schema_id", T.LongType()),
        ]
    )
    schema = T.StructType([*envelopes.select(*columns).schema.fields, T.StructField(DECODED, kind)])
    return envelopes.select(*given).mapInArrow(_Mapped(decoder), schema)


class _Mapped:
    """The function that the workers run."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            payloads = batch.column(records.PAYLOAD)
            columns = [batch.column(c) for c in records.ENVELOPE_COLUMNS]
            columns[_HEADERS_AT] = _with_nulls(columns[_HEADERS_AT], batch.column(_WITH_HEADERS))
            envelopes = pa.RecordBatch.from_arrays(columns, list(records.ENVELOPE_COLUMNS))
            inside = batch.column(_UNWRAPPED) if _UNWRAPPED in batch.schema.names else None
            for each in Decoder.slices_of(payloads):
                found = self._decoder.decode_slice(payloads[each], None if inside is None else inside[each])
                part = envelopes.slice(each.start, each.stop - each.start)
                yield pa.RecordBatch.from_arrays([*part.columns, found], [*records.ENVELOPE_COLUMNS, DECODED])


def _with_nulls(headers: pa.ListArray, given: pa.BooleanArray) -> pa.ListArray:
    """NULL where none were given. Their values are not copied."""
    mask = pc.invert(given)
    return pa.ListArray.from_arrays(headers.offsets, headers.values, type=headers.type, mask=mask)
