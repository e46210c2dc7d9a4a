"""Keys of one stream, or of the broker's section, that cannot both hold. Each names the place to fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidemark.config.decoding import Format
from tidemark.config.destination import name_parts
from tidemark.config.kafka import OWN_PROPERTIES, KafkaSettings
from tidemark.config.reading.faults import KeyPath
from tidemark.config.reading.shape import Finding
from tidemark.config.sections import S3Settings
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


def in_stream(stream: Stream, at: KeyPath, *, native: bool) -> Iterator[Finding]:
    yield from _landing_places(stream, at)
    yield from _schema(stream, at)
    yield from _topics(stream, at)
    yield from _idempotency(stream, at, native=native)
    yield from _formats(stream, at)
    yield from _columns(stream, at)
    processing = stream.processing
    if processing.poll_interval > processing.flush_interval:
        problem = (
            f"poll-interval ({processing.poll_interval:g} s) is above flush-interval "
            f"({processing.flush_interval:g} s): no batch could start in time"
        )
        yield (*at, "processing", "poll-interval"), problem, "lower it"


def in_kafka(kafka: KafkaSettings) -> Iterator[Finding]:
    at: KeyPath = ("kafka",)
    for name in kafka.properties:
        if name in OWN_PROPERTIES:
            owner = OWN_PROPERTIES[name]
            yield (
                (*at, "properties", name),
                f"the client option {name} has a key of its own",
                f"write {owner}",
            )
    security = kafka.security
    here: KeyPath = (*at, "security")
    if security.service_credential is not None:
        others = security.model_fields_set - {"service_credential"}
        for other in sorted(others):
            problem = "contradicts service-credential, which brings everything with it"
            yield (*here, other), problem, "remove one of the two"
        return
    sasl, tls = security.sasl, security.tls
    if security.uses_sasl:
        for key in ("username", "password"):
            if getattr(sasl, key) is None:
                yield (*here, "sasl", key), f"is missing, and protocol is {security.protocol}", "add it"
    elif sasl.username is not None or sasl.password is not None:
        hint = "write protocol: SASL_SSL (or SASL_PLAINTEXT), or remove sasl"
        yield (*here, "sasl"), f"contradicts protocol {security.protocol}, which knows no user", hint
    if not security.uses_tls and tls.model_fields_set:
        hint = "write protocol: SSL or SASL_SSL, or remove tls"
        yield (*here, "tls"), f"contradicts protocol {security.protocol}, which is not encrypted", hint
    if (tls.certificate_file is None) != (tls.key_file is None):
        yield (*here, "tls"), "certificate-file and key-file belong together", "write both or none"


def in_s3(s3: S3Settings) -> Iterator[Finding]:
    at: KeyPath = ("aws", "s3")
    if (s3.access_key_id is None) != (s3.secret_access_key is None):
        present, absent = "access-key-id", "secret-access-key"
        if s3.access_key_id is None:
            present, absent = absent, present
        yield (*at, absent), f"is missing, and {present} is set", "write both, or none for the usual chain"
    if s3.session_token is not None and s3.access_key_id is None:
        yield (*at, "session-token"), "is set without access-key-id", "write all three, or none"


def destination_faults(destination: Destination, at: KeyPath) -> Iterator[Finding]:
    """A place is a catalog name, or a bucket (or folder) and a path: one of the two, and whole."""
    if destination.table is not None:
        for key in ("bucket", "path"):
            if getattr(destination, key) is not None:
                hint = f"remove one of the two (`{key}:` without a value takes the base file's away)"
                yield (*at, key), "contradicts table: both say where the table lies", hint
        try:
            name_parts(destination.table)
        except ValueError as e:
            problem, _, hint = str(e).partition(": ")
            yield (*at, "table"), problem, hint
    else:
        for key in ("bucket", "path"):
            if getattr(destination, key) is None:
                yield (*at, key), "is missing", "write bucket and path, or table for a catalog name"
            elif _names_nothing(str(getattr(destination, key)), key) and (
                key == "path" or destination.bucket != "/"
            ):
                yield (*at, key), "must not be empty", "name the folder of the table"
        if destination.path is not None and ".." in destination.path.split("/"):
            yield (*at, "path"), "leaves its bucket by `..`", "write the folder itself as the bucket"
    for key, columns in (
        ("partition-columns", destination.partition_columns),
        ("cluster-by", destination.cluster_by),
        ("statistics", destination.statistics or ()),
    ):
        doubled = [column for column, n in Counter(c.lower() for c in columns).items() if n > 1]
        if doubled:
            yield (*at, key), f"names {', '.join(doubled)} twice", "name each column once"
    if destination.cluster_by and destination.partition_columns:
        yield (*at, "cluster-by"), "contradicts partition-columns: Delta knows one of the two", "remove one"
    if len(destination.cluster_by) > MOST_CLUSTERING_COLUMNS:
        yield (*at, "cluster-by"), f"has more than {MOST_CLUSTERING_COLUMNS} columns", "name fewer"
    for written, value in destination.properties.items():
        # Delta knows its own properties in any letter case.
        why = _REFUSED.get(written.lower())
        if why is not None and value != "Serializable":
            yield (*at, "properties", written), f"is refused: {why}", "remove it"
        if written.lower() in _STATISTICS and destination.statistics is not None:
            problem = "contradicts statistics: both say which columns have statistics"
            yield (*at, "properties", written), problem, "remove one of the two"


def _names_nothing(written: str, key: str) -> bool:
    return all(part == "" or (part == "." and key == "path") for part in written.split("/"))


def _landing_places(stream: Stream, at: KeyPath) -> Iterator[Finding]:
    if stream.destination is None and stream.landing is None:
        yield (
            (*at, "destination"),
            "is missing: the stream lands nowhere",
            "add destination, landing, or both",
        )
    if stream.destination is not None:
        yield from destination_faults(stream.destination, (*at, "destination"))
    if stream.landing is not None:
        yield from destination_faults(stream.landing.destination, (*at, "landing", "destination"))


def _schema(stream: Stream, at: KeyPath) -> Iterator[Finding]:
    here: KeyPath = (*at, "schema")
    if stream.schema_ is None:
        if stream.destination is not None:
            yield (
                here,
                "is missing, and the stream decodes into a table",
                "add ddl or file, or write landing instead",
            )
    elif stream.schema_.ddl is not None and stream.schema_.file is not None:
        yield here, "ddl and file contradict each other: both give the schema", "keep one"
    elif stream.schema_.ddl is None and stream.schema_.file is None:
        yield here, "gives no schema", "write ddl or file"


def _topics(stream: Stream, at: KeyPath) -> Iterator[Finding]:
    if stream.kafka_topic in (".", ".."):
        yield (*at, "kafka-topic"), "is no legal topic name", "Kafka keeps `.` and `..` for itself"
    if stream.dlq_topic == stream.kafka_topic:
        problem = "is the topic itself: every dead letter would be read again, for ever"
        yield (*at, "dead-letter", "topic"), problem, f"leave it out for {stream.kafka_topic}-dlq"
    if len(stream.dlq_topic) > 249:
        problem = f"the DLQ topic's name would have {len(stream.dlq_topic)} characters; Kafka takes 249"
        yield (*at, "dead-letter", "topic"), problem, "name a shorter one"


def _idempotency(stream: Stream, at: KeyPath, *, native: bool) -> Iterator[Finding]:
    here: KeyPath = (*at, "idempotency")
    options = stream.idempotency
    explicit = "mode" in options.model_fields_set
    if explicit and options.mode is Mode.KAFKA_NATIVE and not native:
        problem = "kafka-native contradicts kafka-native.idempotency.enabled: false"
        yield (*here, "mode"), problem, "set that to true, or name another mode"
    mode = options.mode if explicit or native else Mode.FINGERPRINT
    if options.merge_keys and mode is not Mode.MERGE:
        problem = f"contradicts mode {mode.value}, which only appends"
        yield (*here, "merge-keys"), problem, "write mode: merge, or remove them"
    if options.order_by is not None and not options.merge_keys:
        yield (
            (*here, "order-by"),
            "orders the records of an entity, but merge-keys names none",
            "add merge-keys",
        )


def _formats(stream: Stream, at: KeyPath) -> Iterator[Finding]:
    formats = stream.supported_formats
    if len(set(formats)) < len(formats):
        yield (*at, "supported-formats"), "names a format twice", "name each once"
    csv, avro = stream.csv, stream.avro
    if csv.delimiter == csv.quote:
        yield (*at, "csv", "quote"), "is the delimiter too", "choose two different characters"
    if avro.framing == "none":
        for key, given in (("registry", avro.registry), ("schema-files", avro.schema_files)):
            if given:
                problem = "names schemas by id, but framing: none says that records carry no id"
                yield (*at, "avro", key), problem, "write framing: confluent, or remove it"
    elif avro.writer_schema is not None:
        problem = "contradicts framing: confluent, where each record names its own schema"
        yield (*at, "avro", "writer-schema"), problem, "remove one of the two"
    if avro.framing == "confluent" and Format.AVRO in formats and not (avro.registry or avro.schema_files):
        yield (
            (*at, "avro"),
            "framing: confluent needs to know the schemas",
            "add registry, schema-files, or both",
        )


def _columns(stream: Stream, at: KeyPath) -> Iterator[Finding]:
    for name, options in stream.fields.items():
        if options.required and options.default is not None:
            problem = "required and default contradict each other: with a default the field is never absent"
            yield (*at, "fields", name), problem, "keep one"
    rules = Counter(rule.name for rule in stream.rules)
    for name, count in rules.items():
        if count > 1:
            yield (*at, "rules"), f"{count} rules are named {name}", "give each its own name"
    columns = Counter((o.column or n).lower() for n, o in stream.fields.items())
    for column, count in columns.items():
        if count > 1:
            yield (
                (*at, "fields"),
                f"{count} fields would land in the column {column}",
                "rename one with `column`",
            )
    reserved = {c.lower() for c in (*ADDED_COLUMNS, EXTRA)}
    for column in stream.enrich:
        if column.lower() in reserved:
            yield (*at, "enrich", column), "is a column that the pipeline adds itself", "choose another name"
    for name, options in stream.fields.items():
        if options.column is not None and options.column.lower() in reserved:
            problem = f"{options.column} is a column that the pipeline adds itself"
            yield (*at, "fields", name, "column"), problem, "choose another name"
