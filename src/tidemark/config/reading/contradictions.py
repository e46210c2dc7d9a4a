"""Keys of one section that contradict each other. Each finding names the key to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tidemark.config.base import Section
from tidemark.config.decoding import Format, SchemaSource
from tidemark.config.destination import name_parts
from tidemark.config.kafka import OWN_PROPERTIES, KafkaSettings, Security
from tidemark.config.reading.faults import Finding, KeyPath
from tidemark.config.sections import NativeIdempotency, S3Settings
from tidemark.config.stream import Destination, Mode, Stream
from tidemark.contract.records import ADDED_COLUMNS, EXTRA

REFUSED_TABLE_PROPERTIES = {
    "delta.setTransactionRetentionDuration": "the ledger would forget its ledger commits",
    "delta.isolationLevel": "the ledger needs Serializable and sets it itself",
}

_REFUSED = {name.lower(): why for name, why in REFUSED_TABLE_PROPERTIES.items()}
_STATISTICS = ("delta.dataskippingstatscolumns", "delta.dataskippingnumindexedcols")

MOST_CLUSTERING_COLUMNS = 4
"""Delta's own limit."""


def in_section(section: Section, at: KeyPath, sections: Mapping[KeyPath, Section]) -> Iterator[Finding]:
    """The contradictions within the section at `at`. `sections` are all sections of the file, by path."""
    match section:
        case Stream():
            toggle = sections.get(("kafka-native", "idempotency"))
            native = toggle.enabled if isinstance(toggle, NativeIdempotency) else True
            yield from _in_stream(section, at)
            yield from _idempotency(section, (*at, "idempotency"), native=native)
        case SchemaSource():
            if section.ddl is not None and section.file is not None:
                yield at, "ddl and file contradict each other: both give the schema", "keep one"
            elif section.ddl is None and section.file is None:
                yield at, "gives no schema", "write ddl or file"
        case Destination():
            yield from destination_faults(section, at)
        case KafkaSettings():
            for name in section.properties.keys() & OWN_PROPERTIES.keys():
                problem = f"the client option {name} has a key of its own"
                yield (*at, "properties", name), problem, f"write {OWN_PROPERTIES[name]}"
        case Security():
            yield from _security(section, at)
        case S3Settings():
            yield from _s3(section, at)


def destination_faults(destination: Destination, at: KeyPath) -> Iterator[Finding]:
    """A table has a catalog name, or a bucket (or folder) and a path: exactly one of the two, complete."""
    if destination.table is not None:
        for key in ("bucket", "path"):
            if getattr(destination, key) is not None:
                hint = f"remove one of the two (`{key}:` without a value removes the base file's)"
                yield (*at, key), "contradicts table: both say where the table lies", hint
        try:
            name_parts(destination.table)
        except ValueError as e:
            # Without the name: one that the environment gave may be a secret in the wrong place.
            yield (*at, "table"), "is not a table name", str(e).partition(": ")[2]
    else:
        yield from _folder_faults(destination, at)
    for key, columns in (
        ("partition-columns", destination.partition_columns),
        ("cluster-by", destination.cluster_by),
        ("statistics", destination.statistics or ()),
    ):
        if doubled := _doubled(column.lower() for column in columns):
            yield (*at, key), f"names {', '.join(doubled)} twice", "name each column once"
    if destination.cluster_by and destination.partition_columns:
        yield (*at, "cluster-by"), "contradicts partition-columns: Delta takes one of the two", "remove one"
    if len(destination.cluster_by) > MOST_CLUSTERING_COLUMNS:
        yield (*at, "cluster-by"), f"has more than {MOST_CLUSTERING_COLUMNS} columns", "name fewer"
    for written, value in destination.properties.items():
        # Delta reads its own properties in any letter case.
        why = _REFUSED.get(written.lower())
        if why is not None and value != "Serializable":
            yield (*at, "properties", written), f"is refused: {why}", "remove it"
        if written.lower() in _STATISTICS and destination.statistics is not None:
            problem = "contradicts statistics: both say which columns have statistics"
            yield (*at, "properties", written), problem, "remove one of the two"


def _folder_faults(destination: Destination, at: KeyPath) -> Iterator[Finding]:
    for key, written in (("bucket", destination.bucket), ("path", destination.path)):
        empty = ("", ".") if key == "path" else ("",)
        if written is None:
            yield (*at, key), "is missing", "write bucket and path, or table for a catalog name"
        elif all(part in empty for part in written.split("/")) and (key, written) != ("bucket", "/"):
            yield (*at, key), "must not be empty", "name the folder of the table"
    if destination.path is not None and ".." in destination.path.split("/"):
        yield (*at, "path"), "leaves its bucket by `..`", "write the folder itself as the bucket"


def _security(security: Security, at: KeyPath) -> Iterator[Finding]:
    if security.service_credential is not None:
        for other in sorted(security.model_fields_set - {"service_credential"}):
            problem = "contradicts service-credential, which contains everything"
            yield (*at, other), problem, "remove one of the two"
        return
    sasl, tls = security.sasl, security.tls
    if security.uses_sasl:
        for key in ("username", "password"):
            if getattr(sasl, key) is None:
                yield (*at, "sasl", key), f"is missing, and protocol is {security.protocol}", "add it"
    elif sasl.username is not None or sasl.password is not None:
        hint = "write protocol: SASL_SSL (or SASL_PLAINTEXT), or remove sasl"
        yield (*at, "sasl"), f"contradicts protocol {security.protocol}, which has no user", hint
    if not security.uses_tls and tls.model_fields_set:
        hint = "write protocol: SSL or SASL_SSL, or remove tls"
        yield (*at, "tls"), f"contradicts protocol {security.protocol}, which is not encrypted", hint
    if (tls.certificate_file is None) != (tls.key_file is None):
        yield (*at, "tls"), "certificate-file and key-file belong together", "write both or none"


def _s3(s3: S3Settings, at: KeyPath) -> Iterator[Finding]:
    if (s3.access_key_id is None) != (s3.secret_access_key is None):
        present, absent = "access-key-id", "secret-access-key"
        if s3.access_key_id is None:
            present, absent = absent, present
        yield (*at, absent), f"is missing, and {present} is set", "write both, or none for the usual chain"
    if s3.session_token is not None and s3.access_key_id is None:
        yield (*at, "session-token"), "is set without access-key-id", "write all three, or none"


def _in_stream(stream: Stream, at: KeyPath) -> Iterator[Finding]:
    if stream.destination is None and stream.landing is None:
        hint = "add destination, landing, or both"
        yield (*at, "destination"), "is missing: the stream lands nowhere", hint
    if stream.destination is not None and stream.schema_ is None:
        hint = "add ddl or file, or write landing instead"
        yield (*at, "schema"), "is missing, and the stream decodes into a table", hint
    if stream.kafka_topic in (".", ".."):
        yield (*at, "kafka-topic"), "is not a valid topic name", "Kafka reserves `.` and `..`"
    if stream.dlq_topic == stream.kafka_topic:
        problem = "is the topic itself: every dead letter would be read again, without end"
        yield (*at, "dead-letter", "topic"), problem, f"leave it out for {stream.kafka_topic}-dlq"
    if len(stream.dlq_topic) > 249:
        problem = f"the DLQ topic's name would have {len(stream.dlq_topic)} characters; Kafka takes 249"
        yield (*at, "dead-letter", "topic"), problem, "choose a shorter name"
    processing = stream.processing
    if processing.poll_interval is not None and processing.poll_interval > processing.flush_interval:
        problem = (
            f"poll-interval ({processing.poll_interval:g} s) is above flush-interval "
            f"({processing.flush_interval:g} s): no batch could start in time"
        )
        yield (*at, "processing", "poll-interval"), problem, "lower it"
    yield from _formats(stream, at)
    yield from _columns(stream, at)


def _idempotency(stream: Stream, at: KeyPath, *, native: bool) -> Iterator[Finding]:
    options = stream.idempotency
    explicit = "mode" in options.model_fields_set
    if explicit and options.mode is Mode.KAFKA_NATIVE and not native:
        problem = "kafka-native contradicts kafka-native.idempotency.enabled: false"
        yield (*at, "mode"), problem, "set that to true, or name another mode"
    mode = options.mode if explicit or native else Mode.FINGERPRINT
    if options.merge_keys and mode is not Mode.MERGE:
        problem = f"contradicts mode {mode.value}, which only appends"
        yield (*at, "merge-keys"), problem, "write mode: merge, or remove them"
    if options.order_by is not None and not options.merge_keys:
        problem = "orders the records of an entity, but merge-keys names none"
        yield (*at, "order-by"), problem, "add merge-keys"


def _formats(stream: Stream, at: KeyPath) -> Iterator[Finding]:
    csv, avro = stream.csv, stream.avro
    if _doubled(stream.supported_formats):
        yield (*at, "supported-formats"), "names a format twice", "name each once"
    for key, mark in (("quote", csv.quote), ("escape", csv.escape)):
        if mark == csv.delimiter:
            yield (*at, "csv", key), "is the delimiter too", "choose two different characters"
    for key, mark in (("delimiter", csv.delimiter), ("quote", csv.quote), ("escape", csv.escape)):
        if mark in ("\r", "\n"):
            yield (*at, "csv", key), "is a line end, which ends the record", "choose another character"
    if avro.framing == "none":
        for key, given in (("registry", avro.registry), ("schema-files", avro.schema_files)):
            if given:
                problem = "names schemas by id, but framing: none says that records carry no id"
                yield (*at, "avro", key), problem, "write framing: confluent, or remove it"
        return
    if avro.writer_schema is not None:
        problem = "contradicts framing: confluent, where each record names its own schema"
        yield (*at, "avro", "writer-schema"), problem, "remove one of the two"
    if Format.AVRO in stream.supported_formats and not (avro.registry or avro.schema_files):
        problem = "framing: confluent needs the schemas"
        yield (*at, "avro"), problem, "add registry, schema-files, or both"


def _columns(stream: Stream, at: KeyPath) -> Iterator[Finding]:
    reserved = {c.lower() for c in (*ADDED_COLUMNS, EXTRA)}
    for name, options in stream.fields.items():
        if options.required and options.default is not None:
            problem = "required and default contradict each other: with a default the field is never absent"
            yield (*at, "fields", name), problem, "keep one"
        if options.column is not None and options.column.lower() in reserved:
            problem = f"{options.column} is a column that the pipeline adds itself"
            yield (*at, "fields", name, "column"), problem, "choose another name"
    for name, count in _doubled(rule.name for rule in stream.rules).items():
        yield (*at, "rules"), f"{count} rules are named {name}", "give each its own name"
    for column, count in _doubled((o.column or n).lower() for n, o in stream.fields.items()).items():
        problem = f"{count} fields would land in the column {column}"
        yield (*at, "fields"), problem, "rename one with `column`"
    for column in stream.enrich:
        if column.lower() in reserved:
            yield (*at, "enrich", column), "is a column that the pipeline adds itself", "choose another name"


def _doubled(names: Iterable[str]) -> dict[str, int]:
    return {name: count for name, count in Counter(names).items() if count > 1}
