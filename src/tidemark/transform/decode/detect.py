"""Which format a payload is in, among those that the stream supports.

The rule is the one of `kafka-native-idempotency.md` 2.1, on bytes: `{…}` or `[…]` is JSON; text with the
stream's delimiter and no `{` is CSV; the rest is Avro. A BOM and white space around do not count. With
one supported format there is no detection. docs/failure-codes.md lists the shapes that stay ambiguous.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.config.decoding import CsvDialect, Format

BOM = "\ufeff"
_CONTROLS = r"[\x00-\x08\x0B\x0C\x0E-\x1F]"


def format_of(text: Column, formats: tuple[Format, ...], dialect: CsvDialect) -> Column:
    """The format's name, or NULL where none of the supported ones fits. `text` has no BOM."""
    if len(formats) == 1:
        return F.lit(formats[0].value)
    trimmed = F.btrim(text, F.lit(" \t\r\n"))
    enclosed = (trimmed.startswith("{") & trimmed.endswith("}")) | (
        trimmed.startswith("[") & trimmed.endswith("]")
    )
    nothing = F.lit(None).cast("string")
    found = F.when(F.lit(False), nothing)
    if Format.AVRO in formats:
        found = found.when(~F.is_valid_utf8(text) | text.rlike(_CONTROLS), F.lit(Format.AVRO.value))
    if Format.JSON in formats:
        found = found.when(enclosed, F.lit(Format.JSON.value))
    if Format.CSV in formats:
        found = found.when(text.contains(dialect.delimiter) & ~text.contains("{"), F.lit(Format.CSV.value))
    if Format.AVRO in formats:
        return found.otherwise(F.lit(Format.AVRO.value))
    if Format.JSON in formats:
        found = found.when(trimmed.startswith("{") | trimmed.startswith("["), F.lit(Format.JSON.value))
    return found.otherwise(nothing)
