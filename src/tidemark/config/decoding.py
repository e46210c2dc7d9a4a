"""How a stream's payloads are decoded and validated: formats, schema, dialects, rules, COB date."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator

from tidemark.config.base import TIMEOUT_S, Section


class Format(StrEnum):
    JSON = "JSON"
    CSV = "CSV"
    AVRO = "AVRO"


class FieldOptions(Section, used_by="Spark"):
    """Options of one field that the schema's DDL cannot express."""

    epoch: Literal["s", "ms", "us"] | None = Field(
        None, description="Unit of an epoch number in this TIMESTAMP field; without it numbers are rejected."
    )
    required: bool = Field(False, description="Absent or null rejects the record (REQUIRED_FIELD).")
    default: str | int | float | bool | None = Field(
        None, description="Value of the field where it is absent from the payload."
    )
    secret: bool = Field(False, description="Never shown in a dead letter's message, a log or the console.")
    column: str | None = Field(
        None, description="Name of the table's column, where it differs from the field's."
    )

    @field_validator("*")
    @classmethod
    def _within_reach(cls, value: Any) -> Any:
        """A default is as large as its field's type takes, which `transform.schema` checks."""
        return value


class SchemaSource(Section, used_by="Spark, tidemark check"):
    """The stream's schema: exactly one of `ddl` and `file`."""

    ddl: str | None = Field(
        None, description="Spark DDL, e.g. `user_id STRING NOT NULL, amount DECIMAL(10,2)`."
    )
    file: str | None = Field(
        None,
        description="Schema file, relative to the configuration: `.ddl`, JSON Schema `.json`, Avro `.avsc`.",
    )


class CsvDialect(Section, used_by="Spark"):
    """By default RFC 4180. Columns are in schema order."""

    delimiter: str = Field(",", min_length=1, max_length=1, description="One character.")
    quote: str = Field('"', min_length=1, max_length=1, description="One character.")
    escape: str | None = Field(
        None,
        min_length=1,
        max_length=1,
        description="Escape character; by default a quote is doubled instead.",
    )
    header: bool = Field(
        False,
        description="Payloads start with a header line: the names of the schema's fields, in any order.",
    )
    null_text: str = Field("", description="The unquoted text that means NULL.")


class AvroOptions(Section, used_by="Spark"):
    framing: Literal["none", "confluent"] = Field(
        "none",
        description="`confluent`: byte 0 and a four-byte schema id precede the body. Also for JSON and CSV.",
    )
    writer_schema: str | None = Field(
        None,
        description="File of the schema that unframed values were written with; the stream's by default.",
    )
    reader_schema: str | None = Field(
        None, description="File of the schema to resolve to, with the defaults of newer fields."
    )
    schema_files: dict[int, str] = Field(
        default_factory=dict, description="Schema id to file, for framed values without a registry."
    )
    registry: str | None = Field(None, description="URL of a schema registry with Confluent's HTTP API.")
    registry_timeout: float = Field(10.0, gt=0, le=TIMEOUT_S, description="Seconds to wait for the registry.")


class Rule(Section, used_by="Spark"):
    """A record is valid if `expr` is true or null. All violated rules are reported."""

    name: str = Field(min_length=1, description="Name of the rule in dead letters, unique in the stream.")
    expr: str = Field(min_length=1, description="A deterministic SQL expression over the decoded columns.")
    message: str = Field("", description="Explanation for a person, in the dead letter.")


class Cob(Section, used_by="Spark"):
    """Close-of-business date: its source, and the rule that it must not lie in the future.

    These defaults also apply without the section to a table that is partitioned by `cob_date`, if the schema has
    a field `cob` and no column `cob_date`.
    """

    field: str = Field("cob", description="The field that holds the COB date.")
    column: str = Field("cob_date", description="The DATE column it lands in.")
    timezone: str = Field("UTC", description="Zone in which the record's own timestamp gives today's date.")
    not_in_future: bool = Field(
        True, description="Reject a COB date after the record's own timestamp; not checked where it has none."
    )
