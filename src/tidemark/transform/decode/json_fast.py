r"""The fast lane of JSON: one typed `from_json`, and cheap proofs that its result is exactly right.

What `from_json` alone lets pass, and what proves the contrary here:

* a duplicate key: the number of quotes in the text must be the one that the values found account for.
  Each key and each string has two; a key that is named twice, unknown or null, and an escaped quote, add
  some, and nothing takes any away;
* text after the object: the first `}` is the last character;
* where the quotes or the `}` do not say so, `try_parse_json`, which refuses duplicates, must take the text
  wrapped with a sentinel that comes out second;
* invalid bytes: `is_valid_utf8`; half a surrogate pair in an escape: a text with `\ud…` is not proven;
* a number that turned into another text in a STRING column, infinities, rounding, years of six digits,
  quoted decimals: a check per column, on a type that loses nothing.

What is not proven good is not bad: it goes to `json_strict`, which decides.
"""

from __future__ import annotations

from functools import reduce
from operator import add, and_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.transform.decode.expressions import get
from tidemark.transform.decode.json_strict import SENTINEL, ends_with_its_value
from tidemark.transform.decode.json_tree import JSON_OPTIONS
from tidemark.transform.decode.scalar import BASE64, EPOCH_MICROS, FIRST_MICROS, LAST_MICROS, in_range
from tidemark.transform.fields import DATETIMES, FLOATS, Field, Shape

CORRUPT = "~corrupt~"
_REWRITTEN = r"^-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?\z"
"""How Spark writes a number with a fraction or exponent into a STRING; its own text may differ."""


def reading_type(shape: Shape) -> T.DataType:
    """The type to read a value as: one that keeps all that is needed to prove it."""
    kind = shape.data_type
    if shape.fields:
        return T.StructType([T.StructField(f.name, reading_type(f.shape)) for f in shape.fields])
    if isinstance(kind, T.ArrayType):
        assert shape.element is not None
        return T.ArrayType(reading_type(shape.element))
    if isinstance(kind, T.MapType):
        assert shape.element is not None
        return T.MapType(T.StringType(), reading_type(shape.element))
    if isinstance(kind, (T.ByteType, T.ShortType)):
        return T.IntegerType()
    if isinstance(kind, (T.DecimalType, T.BinaryType)):
        return T.VariantType()
    if isinstance(kind, (T.DateType, T.TimestampType, T.TimestampNTZType)):
        return T.LongType() if shape.epoch else T.StringType()
    return kind


def read(text: Column, fields: tuple[Field, ...]) -> Column:
    """The payload's `from_json`: STRUCT<…, _corrupt>. Evaluate it once.

    With options given, Spark prunes no column from it, so that a fault is found whatever is selected.
    """
    schema = T.StructType([T.StructField(f.name, reading_type(f.shape)) for f in fields])
    schema = schema.add(CORRUPT, T.StringType())
    return F.from_json(text, schema, {**JSON_OPTIONS, "columnNameOfCorruptRecord": CORRUPT})


def value(raw: Column, shape: Shape) -> Column:
    """The typed value of what was read; NULL where it cannot be one."""
    kind = shape.data_type
    if shape.fields:
        members = [value(get(raw, f.name), f.shape).alias(f.column) for f in shape.fields]
        return F.when(raw.isNotNull(), F.struct(*members))
    if isinstance(kind, T.ArrayType):
        inner = shape.element
        assert inner is not None
        return raw if _as_read(inner) else F.transform(raw, lambda e: value(e, inner))
    if isinstance(kind, T.MapType):
        held = shape.element
        assert held is not None
        return raw if _as_read(held) else F.transform_values(raw, lambda _, v: value(v, held))
    if isinstance(kind, (T.ByteType, T.ShortType)):
        return raw.try_cast(kind)
    if isinstance(kind, T.DecimalType):
        return F.when(
            F.schema_of_variant(raw).isin(_exact_types(kind)),
            F.try_variant_get(raw, "$", kind.simpleString()),
        )
    if isinstance(kind, T.BinaryType):
        base64 = F.try_variant_get(raw, "$", "string")
        return F.when((F.schema_of_variant(raw) == "STRING") & base64.rlike(BASE64), F.unbase64(base64))
    if shape.epoch:
        factor = EPOCH_MICROS[shape.epoch]
        inside = raw.between(-(-FIRST_MICROS // factor), LAST_MICROS // factor)
        return F.timestamp_micros(F.when(inside, raw * F.lit(factor)))
    if isinstance(kind, T.TimestampType):
        return F.when(_usual_timestamp(raw), raw.try_cast(kind))
    if isinstance(kind, T.DateType):
        return F.when((F.octet_length(raw) == 10) & _dashes(raw), raw.try_cast(kind))
    if isinstance(kind, T.TimestampNTZType):
        return F.when((F.octet_length(raw) == 19) & _dashes(raw) & _colons(raw), raw.try_cast(kind))
    return raw


def _dashes(raw: Column) -> Column:
    return (F.substring(raw, 5, 1) == "-") & (F.substring(raw, 8, 1) == "-")


def _colons(raw: Column) -> Column:
    return (
        F.substring(raw, 11, 1).isin("T", " ")
        & (F.substring(raw, 14, 1) == ":")
        & (F.substring(raw, 17, 1) == ":")
    )


def _usual_timestamp(raw: Column) -> Column:
    """`yyyy-mm-ddThh:mm:ssZ`, perhaps with three or six digits of a fraction.

    The cast takes many other forms as well. With the separators in their places and this length it
    takes none but this one; other right forms are for the slow lane. Cheaper than a pattern.
    """
    fraction = F.octet_length(raw).isin(24, 27) & (F.substring(raw, 20, 1) == ".")
    return ((F.octet_length(raw) == 20) | fraction) & raw.endswith("Z") & _dashes(raw) & _colons(raw)


def _as_read(shape: Shape) -> bool:
    """Whether the value is what was read, without a conversion."""
    kind = shape.data_type
    if shape.fields:
        return all(_as_read(f.shape) and f.name == f.column for f in shape.fields)
    if shape.element is not None:
        return _as_read(shape.element)
    return isinstance(kind, (T.StringType, T.BooleanType, T.IntegerType, T.LongType, *FLOATS))


def _exact_types(kind: T.DecimalType) -> list[str]:
    """Types of variant numbers that the decimal column holds without rounding."""
    whole = kind.precision - kind.scale
    fitting = [
        f"DECIMAL({p},{s})" for s in range(kind.scale + 1) for p in range(max(1, s), 39) if p - s <= whole
    ]
    return [*fitting, *[f"DECIMAL({p},{s})" for s in range(1, kind.scale + 1) for p in range(1, s)], "BIGINT"]


def proven(raw: Column, typed: Column, shape: Shape, *, required: bool, default: bool) -> Column:
    """Whether the value is exactly what the payload says; never NULL."""
    if required:
        return raw.isNotNull() & _proven_present(raw, typed, shape)
    if default:
        return raw.isNotNull() & _proven_present(raw, typed, shape)
    return raw.isNull() | _proven_present(raw, typed, shape)


def _proven_present(raw: Column, typed: Column, shape: Shape) -> Column:
    kind = shape.data_type
    if shape.fields:
        parts = [
            proven(
                get(raw, f.name),
                get(typed, f.column),
                f.shape,
                required=f.required,
                default=f.default is not None,
            )
            for f in shape.fields
        ]
        return reduce(and_, parts)
    if shape.element is not None:
        inner = shape.element
        elements = raw if isinstance(kind, T.ArrayType) else F.map_values(raw)
        return F.forall(
            elements, lambda e: proven(e, value(e, inner), inner, required=not inner.nullable, default=False)
        )
    if isinstance(kind, T.StringType):
        return _kept_its_text(raw)
    if isinstance(kind, FLOATS):
        return F.abs(raw) < F.lit(float("inf"))
    if isinstance(kind, T.BooleanType | T.IntegerType | T.LongType):
        return F.lit(True)
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        return typed.isNotNull() & F.coalesce(in_range(typed, kind), F.lit(False))
    return typed.isNotNull()


def _kept_its_text(raw: Column) -> Column:
    """Not a container, an infinity, a `0` that was `-0`, or a number that may have been rewritten."""
    numeric = (raw >= "-") & (raw < ":") & ((raw == "0") | raw.rlike(_REWRITTEN))
    container = ((raw >= "[") & (raw < "\\")) | ((raw >= "{") & (raw < "|")) | ((raw >= '"') & (raw < "#"))
    return ~(numeric | container)


def quotes_expected(pairs: list[tuple[Column, Column, Shape]]) -> Column | None:
    """The quotes that the values found account for at least, or None where they cannot be counted."""
    if any(not shape.is_scalar for _, _, shape in pairs):
        return None
    return reduce(add, [_quotes(raw, typed, shape) for raw, typed, shape in pairs])


def _quotes(raw: Column, typed: Column, shape: Shape) -> Column:
    kind = shape.data_type
    if isinstance(kind, T.StringType):
        bare = ((raw >= "-") & (raw < ":")) | (raw == "true") | (raw == "false")
        return F.when(raw.isNull(), F.lit(0)).when(bare, F.lit(2)).otherwise(F.lit(4))
    text = isinstance(kind, DATETIMES) and not shape.epoch
    quoted = text or isinstance(kind, T.BinaryType)
    return F.when(typed.isNull(), F.lit(0)).otherwise(F.lit(4 if quoted else 2))


def parsed_whole(text: Column, read_: Column) -> Column:
    """Whether the payload begins with one object of the right types, in whole characters; never NULL."""
    return F.coalesce(read_.isNotNull() & get(read_, CORRUPT).isNull() & F.is_valid_utf8(text), F.lit(False))


def accounted_for(text: Column, expected: Column | None) -> Column:
    """Whether keys are distinct and known, none is null, and nothing follows; False if it is not clear.

    There are never fewer quotes than expected, so it is enough that there are not more: what stands
    before the next one is the whole text. (Measured: a tenth of the time of counting them.)
    """
    if expected is None:
        return F.lit(False)
    length = F.octet_length(text)
    up_to_quotes = F.call_function("substring_index", text, F.lit('"'), expected + 1)
    up_to_end = F.substring_index(text, "}", 1)
    return (
        (F.octet_length(up_to_quotes) == length)
        & (F.octet_length(up_to_end) == length - 1)
        & ~text.contains("\\u")
    )


def unknown_count(text: Column, fields: tuple[Field, ...]) -> Column:
    """Unknown fields at the top of a text that is not accounted for; -1 where it is not proven whole.

    `try_parse_json` stops at the end of the first value, so the text is wrapped with a sentinel, which
    must come second. It cannot come from a text that does not have it, unless by an escape; then another
    sentinel must come out too, and no text can bring both.
    """
    known = F.array(*[F.lit(f.name) for f in fields])
    counted = F.size(F.array_except(F.json_object_keys(text), known))
    wrapped = F.try_parse_json(F.concat(F.lit("["), text, F.lit(f',"{SENTINEL}"]')))
    second = F.coalesce(F.try_variant_get(wrapped, "$[1]", "string") == SENTINEL, F.lit(False))
    whole = second & ~text.contains("tidemark~") & (~text.contains("\\u") | ends_with_its_value(text))
    return F.when(whole & ~text.contains("\\ud") & ~text.contains("\\uD"), counted).otherwise(F.lit(-1))
