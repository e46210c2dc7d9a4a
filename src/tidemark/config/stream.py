"""One stream: an entry of `connector.topics`, with its Kafka topic and its tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from tidemark.config.base import INT32, TIMEOUT_S, Section
from tidemark.config.decoding import AvroOptions, Cob, CsvDialect, FieldOptions, Format, Rule, SchemaSource
from tidemark.config.failures import FailureRule


class Destination(Section, used_by="Spark"):
    """The location of a table: a catalog name (`table`), or a folder (`bucket` and `path`)."""

    bucket: str | None = Field(
        None, description="S3 bucket, or a folder: anything that starts with `/`, `.` or names a scheme."
    )
    path: str | None = Field(None, description="Path of the table inside the bucket or folder.")
    table: str | None = Field(
        None, description="Catalog name of the table instead, e.g. `main.bronze.orders`."
    )
    partition_columns: tuple[str, ...] = Field((), description="Partition columns of the table, in order.")
    cluster_by: tuple[str, ...] = Field(
        (), description="Columns of liquid clustering instead, up to four; `tidemark maintain` clusters."
    )
    statistics: tuple[str, ...] | None = Field(
        None,
        description="Columns that readers may skip files by, besides the coordinates; nested ones with"
        " dots. By default the table's own, as many as Delta takes (32 in all). Set at its creation.",
    )
    properties: dict[str, str] = Field(
        default_factory=dict, description="Further Delta table properties, set when the table is created."
    )


_USUAL_POLL_S = 0.5
_SHORTEST_POLL_S = 0.05
_POLLS_A_SECOND = 20
_LONGEST_RETENTION_S = 100 * 365 * 86_400


class Processing(Section, used_by="Spark"):
    batch_size: int = Field(
        1000, ge=1, description="A micro-batch starts at this many records (Spark's minOffsetsPerTrigger)."
    )
    flush_interval: float = Field(
        60, gt=0, description="… or after this many seconds, whichever is first (maxTriggerDelay)."
    )
    max_batch_size: int = Field(
        1_000_000, ge=1, description="Upper bound of records in a micro-batch (maxOffsetsPerTrigger)."
    )
    poll_interval: float | None = Field(
        None,
        ge=0,
        description="Seconds between two polls for new records. By default 0.5, and 0.05 for each query of the"
        " application where that is more, so that its streams and DLQ tables ask Kafka twenty times a second in"
        " all; or `flush-interval`, if that is less, but not below 0.05.",
    )
    max_retries: int = Field(3, ge=0, description="Retries of a failed step: 3 retries are 4 attempts.")
    retry_deadline: float = Field(
        300, gt=0, description="Seconds after which a step is not retried any more."
    )
    max_commit_retries: int = Field(15, ge=0, description="Retries of a Delta commit after a conflict.")
    on_exhausted: Literal["dead-letter", "pause"] = Field(
        "dead-letter",
        description="What happens to a batch when retries are exhausted or the breaker is open.",
    )
    max_bad_share: float | None = Field(
        None,
        gt=0,
        le=1,
        description="A batch with a larger share of bad records stops the stream, unpublished.",
    )
    rejected_in_memory: int = Field(
        2500,
        ge=1,
        le=10_000,
        description="Rejected records of a batch that the driver keeps in memory; a batch with more, or with one"
        " above 4 KB, is read again for them. Fewer where a batch has many tasks: 16,384 divided by these.",
    )
    min_partitions: int | None = Field(
        None, ge=1, le=INT32, description="Spark tasks to read a batch with, if more than Kafka partitions."
    )
    max_partitions: int | None = Field(
        None,
        ge=1,
        le=INT32,
        description="Spark tasks to read and land a batch with, if fewer than Kafka partitions; each writes a"
        " file. Without it as many as `spark.default.parallelism`, which a local session sets to its cores.",
    )

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.max_batch_size < self.batch_size:
            raise ValueError(
                f"max-batch-size ({self.max_batch_size}) is below batch-size ({self.batch_size})"
            )
        if self.max_partitions is not None and self.min_partitions is not None:
            raise ValueError("min-partitions and max-partitions exclude each other")
        return self

    def seconds_between_polls(self, queries: int) -> float:
        """Of each of so many queries of one application. What idle streams cost is their polls."""
        if self.poll_interval is not None:
            return self.poll_interval
        shared = max(_USUAL_POLL_S, queries / _POLLS_A_SECOND)
        return min(shared, max(_SHORTEST_POLL_S, self.flush_interval))


class Mode(StrEnum):
    KAFKA_NATIVE = "kafka-native"
    FINGERPRINT = "fingerprint"
    MERGE = "merge"


class Idempotency(Section, used_by="Spark"):
    """How duplicates are prevented. The marks do it in every mode; the other modes add to them."""

    mode: Mode = Field(
        Mode.KAFKA_NATIVE,
        description="`kafka-native`: the marks. `fingerprint`: also drops content seen before. "
        "`merge`: MERGE, for tables with other writers and for upserts. By default as "
        "`kafka-native.idempotency.enabled` says.",
    )
    content: tuple[Literal["key", "value", "headers"], ...] = Field(
        ("key", "value"), min_length=1, description="fingerprint: the parts of a record in the SHA-256."
    )
    retention: float = Field(
        86_400, gt=0, description="fingerprint: minimum seconds that a content is remembered."
    )
    cleanup_interval: float = Field(
        3_600,
        gt=0,
        description="fingerprint: seconds between two clean-ups of older contents, also without traffic.",
    )
    merge_keys: tuple[str, ...] = Field(
        (),
        description="merge: columns that name an entity. With them a newer record updates its row; without, "
        "records are only inserted, by coordinates.",
    )
    order_by: str | None = Field(
        None,
        description="merge: column whose highest value wins among records of an entity; else the offset.",
    )


class DeadLetterOptions(Section, used_by="Spark, admin client"):
    topic: str | None = Field(None, description="DLQ topic; `{kafka-topic}-dlq` by default.")
    format: Literal["headers", "envelope"] = Field(
        "headers", description="Original bytes with headers, or the version 1.0 JSON envelope."
    )
    retention: int | None = Field(
        None,
        gt=0,
        le=_LONGEST_RETENTION_S,
        description="Seconds the DLQ topic keeps dead letters; by default the broker's.",
    )
    keep_table: bool = Field(
        False,
        description="`tidemark ingest` writes the DLQ table too; otherwise `tidemark dead-letters stream` does.",
    )
    publish_timeout: float = Field(
        30, gt=0, le=TIMEOUT_S, description="Seconds to wait for all acknowledgements of a batch."
    )


class Landing(Section, used_by="Spark"):
    """A raw table: the envelope of every record, valid or not."""

    destination: Destination


class Stream(Section, used_by="Spark"):
    """A Kafka topic and its tables."""

    kafka_topic: str = Field(
        min_length=1,
        max_length=249,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="The Kafka topic to read.",
        json_schema_extra={"used_by": "Spark, admin client"},
    )
    supported_formats: tuple[Format, ...] = Field(
        (Format.JSON,), min_length=1, description="The possible formats. With one there is no detection."
    )
    schema_: SchemaSource | None = Field(None, description="Required unless the stream only lands raw.")
    fields: dict[str, FieldOptions] = Field(default_factory=dict, description="Options per field.")
    strict: bool = Field(True, description="Reject JSON objects that name a key twice.")
    unknown_fields: Literal["ignore", "keep", "reject"] = Field(
        "ignore", description="Fields that are not in the schema: counted, kept in `_extra`, or rejected."
    )
    decoder: str | None = Field(
        None,
        description="Name of an installed decoder (entry point `tidemark.decoders`) that unwraps the payload"
        " before its format is detected.",
    )
    tombstones: Literal["skip", "reject"] = Field("skip", description="What happens to a null value.")
    csv: CsvDialect = Field(default_factory=CsvDialect)
    avro: AvroOptions = Field(default_factory=AvroOptions)
    cob: Cob | None = Field(None, description="COB date, derived and checked.")
    rules: tuple[Rule, ...] = ()
    enrich: dict[str, str] = Field(
        default_factory=dict, description="Column to deterministic SQL expression over the decoded columns."
    )
    processing_version: str = Field("1.0", description="Value of the column `processing_version`.")
    destination: Destination | None = Field(None, description="The decoded table.")
    landing: Landing | None = Field(None, description="The raw table.")
    processing: Processing = Field(default_factory=Processing)
    idempotency: Idempotency = Field(default_factory=Idempotency)
    dead_letter: DeadLetterOptions = Field(default_factory=DeadLetterOptions)
    failures: tuple[FailureRule, ...] = Field(
        (),
        description="Rules for the classification of failures, before the built-in ones (docs/failures.md).",
    )
    starting_offsets: Literal["earliest", "latest"] | None = Field(
        None, description="The start of a new stream; by default the consumer's auto-offset-reset."
    )
    on_data_loss: Literal["stop", "continue"] = Field(
        "stop",
        description="When retention deleted unread records: stop, or record the range and continue.",
    )
    schema_evolution: Literal["fixed", "add-columns"] = Field(
        "fixed",
        description="`add-columns` adds new nullable columns to the table; other changes stop the stream.",
    )

    @field_validator("supported_formats", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return (
            [v.upper() if isinstance(v, str) else v for v in value]
            if isinstance(value, list | tuple)
            else value
        )

    @property
    def dlq_topic(self) -> str:
        return self.dead_letter.topic or f"{self.kafka_topic}-dlq"
