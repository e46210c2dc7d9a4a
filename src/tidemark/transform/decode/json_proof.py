r"""Proofs that what `json_fast` read is exactly what the payload says; cheap enough for every record.

What `from_json` alone lets pass, and what proves the contrary here:

* a duplicate key: the number of quotes in the text must be the one that the values found account for.
  Each key and each string has two; a key that is named twice or unknown, an escaped quote, and quotes
  around what should be bare add some, and nothing takes any away;
* text after the object: the first `}` is the last byte;
* where the quotes or the `}` do not say so, `try_parse_json`, which refuses duplicates, must take the text
  wrapped with a sentinel that comes out second;
* invalid bytes: they are U+FFFD in a string that was read, or the text passes `is_valid_utf8`; half a
  surrogate pair in an escape: it is a `?` in a string that was read, or the text has no `\u`;
* a number that turned into another text in a STRING column, infinities, rounding, years of six digits: a
  check per column, on a type that loses nothing.

What is not proven good is not bad: it goes to `json_strict`, which decides.
"""

from __future__ import annotations

from operator import add, and_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.transform.decode.expressions import folded, get
from tidemark.transform.decode.json_fast import Read, value
from tidemark.transform.decode.json_strict import SENTINEL, ends_with_its_value
from tidemark.transform.fields import DATETIMES, FLOATS, Field, Shape
from tidemark.transform.schema import CORRUPT

REPLACED = "\ufffd"
_REWRITTEN = r"^-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?\z"
"""How Spark writes a number with a fraction or exponent into a STRING; its own text may differ."""


def parsed(json: Column) -> Column:
    """Whether the payload begins with one object of the right types; never NULL."""
    return F.coalesce(json.isNotNull() & get(json, CORRUPT).isNull(), F.lit(False))


def parsed_whole(text: Column, json: Column) -> Column:
    """The same in whole characters; never NULL."""
    return parsed(json) & F.coalesce(F.is_valid_utf8(text), F.lit(False))


def values_right(reads: list[Read], *, text: Column | None = None) -> Column:
    """Whether every value is what the payload says of it; never NULL.

    With the `text` of a payload that is accounted for, a STRING that stands in quotes in it is right
    whatever it looks like.
    """
    rights = []
    for each in reads:
        right = _right(each.raw, each.typed, each.shape)
        if text is not None and isinstance(each.shape.data_type, T.StringType):
            right = right | _follows(text, each.field.name, '"')
        rights.append(_or_absent(right, each.raw, each.field))
    return folded(and_, rights)


def _or_absent(right: Column, raw: Column, field: Field) -> Column:
    """A default is for a field that is absent, not for one that is null: `json_strict` tells them apart."""
    needed = field.required or field.default is not None
    return raw.isNotNull() & right if needed else raw.isNull() | right


def _right(raw: Column, typed: Column, shape: Shape) -> Column:
    kind = shape.data_type
    if shape.fields:
        parts = [
            _or_absent(_right(get(raw, f.name), get(typed, f.column), f.shape), get(raw, f.name), f)
            for f in shape.fields
        ]
        return folded(and_, parts)
    if shape.element is not None:
        inner = shape.element
        elements = raw if isinstance(kind, T.ArrayType) else F.map_values(raw)

        def one(element: Column) -> Column:
            right = _right(element, value(element, inner), inner)
            return element.isNull() | right if inner.nullable else element.isNotNull() & right

        return F.forall(elements, one)
    if isinstance(kind, T.StringType):
        return ~_looks_bare(raw) | _kept_its_text(raw)
    if isinstance(kind, FLOATS):
        return F.abs(raw) < F.lit(float("inf"))
    if isinstance(kind, T.BooleanType | T.IntegerType | T.LongType):
        return F.lit(True)
    return typed.isNotNull()


def _looks_bare(raw: Column) -> Column:
    """Whether a STRING's text could have stood without quotes: a number, a literal or a container.

    Ranges of the first character, the commonest first; compared with texts, as nothing is cheaper.
    """
    letter = ((raw >= "\\") & (raw < "{")) | ((raw >= ":") & (raw < "[")) | (raw >= "|")
    return ~letter | raw.isin("true", "false")


def _kept_its_text(raw: Column) -> Column:
    """Not a container, an infinity, a `0` that was `-0`, or a number that may have been rewritten."""
    numeric = (raw >= "-") & (raw < ":") & ((raw == "0") | raw.rlike(_REWRITTEN))
    container = ((raw >= "[") & (raw < "\\")) | ((raw >= "{") & (raw < "|")) | ((raw >= '"') & (raw < "#"))
    return ~(numeric | container)


def accounted_for(text: Column, reads: list[Read]) -> Column:
    """Whether keys are distinct and known, values are quoted where they should be and nowhere else, and
    nothing follows the object; False if it is not clear, as of an object with containers in it.

    There are never fewer quotes than expected, so it is enough that there are not more: what stands
    before the next one is the whole text. (Measured: a tenth of the time of counting them.)
    """
    if not all(r.shape.is_scalar for r in reads):
        return F.lit(False)
    usual = [r.typed.isNotNull() for r in reads]
    usual += [~_looks_bare(r.raw) for r in reads if isinstance(r.shape.data_type, T.StringType)]
    of_all = sum(4 if _is_quoted(r.shape) else 2 for r in reads)
    expected = F.when(folded(and_, usual), F.lit(of_all)).otherwise(
        folded(add, [_quotes(text, r) for r in reads])
    )
    length = F.octet_length(text)
    up_to_quotes = F.call_function("substring_index", text, F.lit('"'), expected + 1)
    up_to_end = F.call_function("substring_index", text, F.lit("}"), F.lit(1))
    return (
        (F.octet_length(up_to_quotes) == length)
        & (F.octet_length(up_to_end) == length - 1)
        & _whole_characters(text, reads)
    )


def _whole_characters(text: Column, reads: list[Read]) -> Column:
    """Whether the bytes of a text that is otherwise accounted for are UTF-8 without half a surrogate pair.

    Spark reads U+FFFD for the first and `?` for the second. Strings are shorter than the text around them.
    """
    strings = [r.raw for r in reads if isinstance(r.shape.data_type, T.StringType)]
    without = [~r.contains(mark) for mark in (REPLACED, "?") for r in strings]
    if any(REPLACED in r.field.name for r in reads):
        without = [F.lit(False)]
    seen = F.is_valid_utf8(text) & ~text.contains("\\u")
    if not without:
        return F.lit(True)
    return F.when(folded(and_, [F.coalesce(w, F.lit(True)) for w in without]), F.lit(True)).otherwise(seen)


def _is_quoted(shape: Shape) -> bool:
    text = isinstance(shape.data_type, DATETIMES) and not shape.epoch
    return text or isinstance(shape.data_type, (T.BinaryType, T.StringType))


def _quotes(text: Column, read: Read) -> Column:
    """The quotes that a field has at least."""
    of_value = F.lit(4 if _is_quoted(read.shape) else 2)
    if isinstance(read.shape.data_type, T.StringType):
        bare = _looks_bare(read.raw) & ~_follows(text, read.field.name, '"')
        of_value = F.when(bare, F.lit(2)).otherwise(F.lit(4))
    of_null = F.when(_follows(text, read.field.name, "null"), F.lit(2)).otherwise(F.lit(0))
    return F.when(read.typed.isNotNull(), of_value).otherwise(of_null)


def _follows(text: Column, name: str, what: str) -> Column:
    """Whether `what` follows the key somewhere. A key that only ends with this name has a quote more."""
    if '"' in name or "\\" in name:
        return F.lit(False)
    return text.contains(f'"{name}":{what}') | text.contains(f'"{name}": {what}')


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
