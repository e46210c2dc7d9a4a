"""The tables of a stream: the decoded one, the raw landing one, or both; each keeps its own marks."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.config.settings import Settings
from tidemark.config.stream import Stream
from tidemark.contract import records
from tidemark.contract.errors import ConfigError
from tidemark.platform.session import s3_scheme
from tidemark.streams.target import Target
from tidemark.transform import decode_plan


def targets_of(spark: SparkSession, settings: Settings, name: str, *, run: str) -> list[Target]:
    """The stream's tables, checked and resolved. Raises ConfigError with all faults found."""
    stream = settings.stream(name)
    refs = settings.tables(name, scheme=s3_scheme())
    targets = []
    if stream.destination is not None:
        plan = decode_plan(stream, base_dir=settings.config_dir, spark=spark)
        _check_merge_columns(name, stream, plan.table_schema)
        targets.append(
            Target(
                name,
                stream,
                refs["decoded"],
                stream.destination,
                plan.table_schema,
                settings.checkpoint_root,
                run,
                plan,
            )
        )
    if stream.landing is not None:
        schema = spark.createDataFrame([], _envelope_schema()).schema
        destination = stream.landing.destination
        targets.append(
            Target(
                f"{name}.landing", stream, refs["landing"], destination, schema, settings.checkpoint_root, run
            )
        )
    return targets


def missing_merge_columns(stream: Stream, names: Collection[str]) -> list[tuple[str, str]]:
    """Columns in `idempotency` that the table does not have, as key and column. Case-sensitive."""
    options = stream.idempotency
    wanted = [("merge-keys", column) for column in options.merge_keys]
    wanted += [("order-by", options.order_by)] if options.order_by else []
    return [(key, column) for key, column in wanted if column not in names]


def _check_merge_columns(name: str, stream: Stream, schema: T.StructType) -> None:
    unknown = [f"{key}: {column}" for key, column in missing_merge_columns(stream, schema.names)]
    if unknown:
        raise ConfigError(
            f"stream {name}: {', '.join(unknown)} is not a column of the table",
            f"columns: {', '.join(schema.names)}",
        )


def _envelope_schema() -> T.StructType:
    parsed = T._parse_datatype_string(records.ENVELOPE_DDL)
    assert isinstance(parsed, T.StructType)
    return parsed
