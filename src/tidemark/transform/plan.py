"""What a stream's records are decoded with: fixed before a batch runs, and safe to pickle.

Long because all that a batch may know of its stream is fixed here, in one value that pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.config.decoding import Cob, CsvDialect, Format, Rule
from tidemark.config.stream import Stream
from tidemark.contract import records
from tidemark.contract.errors import ConfigError
from tidemark.transform.decode.installed_decoders import decoder_named
from tidemark.transform.expressions import type_of, unstable, unstable_as_analysed
from tidemark.transform.fields import INTEGERS, Field, struct_of
from tidemark.transform.limits import TableLimits, named_by_value
from tidemark.transform.schema import column_name, finish_fields, load_fields, read_text
from tidemark.transform.schema_avsc import AvroSchemaError, fields_from_avro, load

RULE_COLUMNS = T.StructType(
    [
        T.StructField(records.TOPIC, T.StringType()),
        T.StructField(records.TOPIC_ID, T.StringType()),
        T.StructField(records.PARTITION, T.IntegerType()),
        T.StructField(records.OFFSET, T.LongType()),
        T.StructField(records.TIMESTAMP, T.TimestampType()),
        T.StructField(records.TIMESTAMP_TYPE, T.StringType()),
        T.StructField(records.KEY, T.BinaryType()),
        T.StructField("schema_id", T.LongType()),
    ]
)
"""What of the envelope an expression may use besides the decoded columns."""


@dataclass(frozen=True)
class DecodePlan:
    """Everything that decides what becomes of a record's bytes.

    `writers` are the Avro schemas of the schema ids known so far; a batch that brings another id is run
    again with `with_writers`. `enriched` is name, expression, type.
    """

    fields: tuple[Field, ...]
    formats: tuple[Format, ...] = (Format.JSON,)
    strict: bool = True
    unknown_fields: str = "ignore"
    tombstones: str = "skip"
    decoder: str | None = None
    csv: CsvDialect = field(default_factory=CsvDialect)
    framed: bool = False
    writer: Any | None = None
    reader: Any | None = None
    writers: Mapping[int, Any] = field(default_factory=dict)
    cob: Cob | None = None
    rules: tuple[Rule, ...] = ()
    enriched: tuple[tuple[str, str, T.DataType], ...] = ()
    processing_version: str = "1.0"
    limits: TableLimits = field(default_factory=TableLimits)

    @property
    def decoded_schema(self) -> T.StructType:
        return struct_of(self.fields)

    @property
    def needs_spark(self) -> bool:
        """Whether more than the decoder decides of a record: an expression, or a function of Columns."""
        return bool(self.rules or self.enriched or self.decoder or self.cob is not None)

    @property
    def cob_field(self) -> Field | None:
        """The field of the COB date, where its column is another one than the field's own."""
        if self.cob is None:
            return None
        found = next(f for f in self.fields if f.name == self.cob.field)
        return None if found.column == self.cob.column else found

    @property
    def table_schema(self) -> T.StructType:
        """Decoded columns, enrichment, COB date, `_extra`, then the columns that every table has."""
        columns = list(self.decoded_schema.fields)
        columns += [T.StructField(name, kind) for name, _, kind in self.enriched]
        if self.cob is not None and self.cob_field is not None:
            columns.append(T.StructField(self.cob.column, T.DateType()))
        if self.unknown_fields == "keep":
            columns.append(T.StructField(records.EXTRA, T.MapType(T.StringType(), T.StringType())))
        added = {f.name: f.dataType for f in RULE_COLUMNS.fields}
        text = T.StringType()
        columns += [T.StructField(name, added.get(name, text)) for name in records.ADDED_COLUMNS]
        return T.StructType(columns)

    def with_writers(self, found: Mapping[int, Any]) -> DecodePlan:
        """The plan, widened by schemas from the registry."""
        return replace(self, writers={**self.writers, **found})


def decode_plan(stream: Stream, *, base_dir: Path, spark: SparkSession | None = None) -> DecodePlan:
    """The stream's plan. Reads its schema files, checks everything, and raises one ConfigError for all.

    A session is needed where the stream has rules or enrichment, for Spark to analyse them; the active
    one by default. Without any, they are checked as far as text goes, and enrichment is refused.
    """
    faults: list[str] = []
    fields = _fields(stream, base_dir, faults)
    avro = _avro(stream, base_dir, faults)
    faults.extend(_numbers_for_times(fields, avro))
    plan = DecodePlan(
        fields=fields,
        formats=stream.supported_formats,
        strict=stream.strict,
        unknown_fields=stream.unknown_fields,
        tombstones=stream.tombstones,
        decoder=stream.decoder,
        csv=stream.csv,
        framed=stream.avro.framing == "confluent",
        cob=_cob(stream, fields, faults),
        rules=stream.rules,
        processing_version=stream.processing_version,
        **avro,
    )
    _check_decoder(stream.decoder, faults)
    enriched = (
        _check_expressions(stream, plan, spark or SparkSession.getActiveSession(), faults) if fields else ()
    )
    if faults:
        listed = "\n".join(f"- {f}" for f in faults)
        raise ConfigError(f"stream of topic {stream.kafka_topic}: {len(faults)} fault(s)\n{listed}")
    plan = replace(plan, enriched=enriched)
    columns = stream.destination.partition_columns if stream.destination is not None else ()
    return replace(plan, limits=TableLimits(named_by_value(columns, plan.table_schema)))


def _fields(stream: Stream, base_dir: Path, faults: list[str]) -> tuple[Field, ...]:
    if stream.schema_ is None:
        faults.append("schema: required for a decoded table")
        return ()
    written, wrong = load_fields(stream.schema_, base_dir)
    faults.extend(wrong)
    if not written:
        return ()
    finished, wrong = finish_fields(written, stream.fields)
    faults.extend(wrong)
    return finished


def _avro(stream: Stream, base_dir: Path, faults: list[str]) -> dict[str, Any]:
    options = stream.avro
    if Format.AVRO not in stream.supported_formats:
        return {}

    def schema(key: str, name: str | None) -> Any | None:
        if name is None:
            return None
        text, wrong = read_text(base_dir / name, f"avro.{key}")
        faults.extend(wrong)
        if wrong:
            return None
        try:
            loaded = load(text)
            fields_from_avro(loaded)
            return loaded
        except AvroSchemaError as error:
            faults.append(f"avro.{key} {name}: {error}")
            return None

    writer = options.writer_schema
    if writer is None and stream.schema_ is not None and str(stream.schema_.file).endswith(".avsc"):
        writer = stream.schema_.file
    found = {
        "writer": schema("writer-schema", writer),
        "reader": schema("reader-schema", options.reader_schema),
        "writers": {i: s for i, f in options.schema_files.items() if (s := schema(f"schema-files.{i}", f))},
    }
    if options.framing == "none" and writer is None:
        faults.append(
            "avro.writer-schema: required for AVRO without framing (or a schema.file that is .avsc)"
        )
    return found


def _numbers_for_times(fields: tuple[Field, ...], avro: Mapping[str, Any]) -> Iterator[str]:
    """Timestamps for which the Avro schema has a number of no unit known here, such as nanoseconds."""
    final = avro.get("reader") or avro.get("writer")
    seen = {f.name: f.shape for f in fields_from_avro(final)} if final is not None else {}
    for each in fields:
        found = seen.get(each.name)
        is_time = isinstance(each.shape.data_type, (T.TimestampType, T.TimestampNTZType))
        if is_time and found is not None and isinstance(found.data_type, INTEGERS) and not each.shape.epoch:
            problem = f"the Avro schema has a plain {found.expected} for it, as `timestamp-nanos` is one"
            what = "set `epoch`, or land it as BIGINT"
            yield f"fields.{each.name}: {each.shape.expected}, but {problem}; {what}"


def _cob(stream: Stream, fields: tuple[Field, ...], faults: list[str]) -> Cob | None:
    cob = stream.cob or _implied_cob(stream, fields)
    if cob is None or not fields:
        return None
    found = next((f for f in fields if f.name == cob.field), None)
    if found is None:
        faults.append(f"cob.field: the schema has no field {cob.field}")
        return None
    if not isinstance(found.shape.data_type, (T.DateType, T.TimestampType, T.StringType)):
        faults.append(f"cob.field: {cob.field} is {found.shape.expected}, not DATE, TIMESTAMP or STRING")
        return None
    if found.column == cob.column and not isinstance(found.shape.data_type, T.DateType):
        faults.append(f"cob.column: {cob.column} is the field's own column, which is not DATE")
        return None
    others = {f.column.lower() for f in fields if f is not found}
    if cob.column.lower() in others or column_name(cob.column) != cob.column:
        faults.append(f"cob.column: {cob.column} is another field's column, or no column name")
        return None
    return cob


def _implied_cob(stream: Stream, fields: tuple[Field, ...]) -> Cob | None:
    """The COB date by its defaults where the table is partitioned by it and the schema has only its field."""
    cob, destination = Cob(), stream.destination
    if destination is None or cob.column not in (*destination.partition_columns, *destination.cluster_by):
        return None
    has_field = any(f.name == cob.field for f in fields)
    return cob if has_field and all(f.column != cob.column for f in fields) else None


def _check_decoder(name: str | None, faults: list[str]) -> None:
    if name is None:
        return
    try:
        decoder_named(name)
    except ConfigError as error:
        faults.append(f"decoder: {error.message}; {error.hint}")


def _check_expressions(
    stream: Stream, plan: DecodePlan, spark: SparkSession | None, faults: list[str]
) -> tuple[tuple[str, str, T.DataType], ...]:
    columns = [*plan.decoded_schema.fields, *RULE_COLUMNS.fields]
    if plan.cob is not None and plan.cob_field is not None:
        columns.append(T.StructField(plan.cob.column, T.DateType()))
    names = frozenset(c.name.lower() for c in columns)
    written = [(f"rules.{r.name}", r.expr) for r in stream.rules]
    written += [(f"enrich.{name}", expr) for name, expr in stream.enrich.items()]
    for key, expression in written:
        faults.extend(f"{key}: {why}" for why in unstable(expression, names))
    for name in stream.enrich:
        if name.lower() in names or column_name(name) != name:
            faults.append(f"enrich.{name}: is another column's name, or no column name")
    if spark is None:
        if stream.enrich:
            faults.append("enrich: a Spark session is needed to check these expressions")
        return ()
    if not written:
        return ()
    empty = spark.createDataFrame([], T.StructType(columns))
    types = {key: type_of(expression, empty) for key, expression in written}
    for key, (kind, why) in types.items():
        if why is not None:
            faults.append(f"{key}: {why}")
        elif key.startswith("rules.") and not isinstance(kind, (T.BooleanType, T.NullType)):
            faults.append(f"{key}: must be a condition, is {kind.simpleString() if kind else 'nothing'}")
    sound = {key: expr for key, expr in written if types[key][1] is None and not unstable(expr, names)}
    faults.extend(f"{key}: {why}" for key, why in unstable_as_analysed(sound, empty).items())
    return tuple(
        (name, expr, kind)
        for name, expr in stream.enrich.items()
        if (kind := types[f"enrich.{name}"][0]) is not None
    )
