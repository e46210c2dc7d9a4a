"""Delta and Spark by condition and class. SQLSTATEs where no condition is known."""

from __future__ import annotations

from tidemark.resilience.decisions import (
    COMMITTED,
    CONFIGURATION,
    CONFLICT,
    CREDENTIALS,
    INTERNAL,
    INVALID,
    MISSING_FILE,
    RESTART,
    SCHEMA,
    SHUTDOWN,
    TABLE_CHANGED,
    UNAVAILABLE,
)
from tidemark.resilience.rule import Tier, rules

DELTA = (
    *rules(
        "delta-conflict",
        CONFLICT,
        conditions="DELTA_CONCURRENT_APPEND DELTA_CONCURRENT_DELETE_READ DELTA_CONCURRENT_DELETE_DELETE"
        " DELTA_CONCURRENT_WRITE DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
        classes="ConcurrentAppendException ConcurrentDeleteReadException ConcurrentDeleteDeleteException"
        " ConcurrentWriteException DeltaConcurrentModificationException",
    ),
    *rules(
        "delta-table-changed",
        TABLE_CHANGED,
        conditions="DELTA_METADATA_CHANGED DELTA_PROTOCOL_CHANGED",
        classes="MetadataChangedException ProtocolChangedException",
    ),
    *rules("concurrent-modification", CONFLICT, classes="ConcurrentModificationException"),
    *rules("delta-committed", COMMITTED, conditions="DELTA_POST_COMMIT_HOOK_FAILED"),
    *rules(
        "delta-schema-changed",
        RESTART,
        condition_pattern=r"^DELTA_(SCHEMA_CHANGED|STREAMING_(SCHEMA_MISMATCH|METADATA_EVOLUTION))",
    ),
    *rules(
        "delta-invalid-rows",
        INVALID,
        conditions="DELTA_NOT_NULL_CONSTRAINT_VIOLATED DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
        " DELTA_EXCEED_CHAR_VARCHAR_LIMIT EXCEED_LIMIT_LENGTH",
    ),
    *rules("delta-plan-outdated", RESTART, conditions="DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"),
    *rules(
        "delta-table-busy",
        UNAVAILABLE,
        conditions="DELTA_COMMIT_INTERMEDIATE_REDIRECT_STATE DELTA_FAILED_READ_FILE_FOOTER"
        " DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",
    ),
    *rules("delta-missing-file", MISSING_FILE, conditions="DELTA_VERSIONS_NOT_CONTIGUOUS"),
    *rules(
        "delta-schema",
        SCHEMA,
        conditions="DELTA_METADATA_MISMATCH DELTA_FAILED_TO_MERGE_FIELDS DELTA_MERGE_INCOMPATIBLE_DATATYPE"
        " DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE DELTA_MISSING_COLUMN",
    ),
    *rules(
        "delta-missing-file",
        MISSING_FILE,
        condition_pattern=r"^DELTA_((LOG_)?FILE_(OR_DIR_)?NOT_FOUND|TRUNCATED_TRANSACTION_LOG|EMPTY_DIRECTORY)",
    ),
    *rules(
        "kafka-source-restart",
        RESTART,
        condition_pattern=r"WITH_TRIGGER_AVAILABLENOW$|^MISMATCHED_TOPIC_PARTITIONS_|^END_OFFSET_HAS_GREATER",
    ),
    *rules(
        "spark-executor-lost",
        UNAVAILABLE,
        class_pattern=r"^(ExecutorLostFailure|FetchFailed)",
        classes="FetchFailedException MetadataFetchFailedException",
    ),
    # Rows that were kept on an executor that is gone: the batch is created again from Kafka.
    *rules("spark-kept-rows-lost", RESTART, conditions="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"),
    *rules("spark-read-file", INTERNAL, classes="ParquetDecodingException"),
)

STOPPED = (
    *rules(
        "interrupted",
        SHUTDOWN,
        classes="KeyboardInterrupt SystemExit CancelledError InterruptedException ClosedByInterruptException"
        " java.io.InterruptedIOException TaskKilledException",
    ),
    *rules(
        "jvm-gone",
        INTERNAL,
        classes="Py4JNetworkError OutOfMemoryError MemoryError StackOverflowError NoClassDefFoundError"
        " ClassNotFoundException NoSuchMethodError ImportError SyntaxError UnsupportedClassVersionError",
    ),
    *rules(
        "spark-stopped",
        INTERNAL,
        message=r"stopped SparkContext|SparkContext (has been|was) (stopped|shut ?down)",
    ),
    *rules(
        "spark-plan",
        CONFIGURATION,
        classes="AnalysisException ParseException IllegalArgumentException UnsupportedOperationException",
    ),
)

# XXKST, 39000, 58030 and KD001 only wrap the cause; 28 is a veto.
SQLSTATES = (
    *rules("sqlstate-conflict", CONFLICT, tier=Tier.STATE, sqlstates="2D521"),
    *rules("sqlstate-connection", UNAVAILABLE, tier=Tier.STATE, sqlstates="08 40 53 55P03 57"),
    *rules("sqlstate-data", INVALID, tier=Tier.STATE, sqlstates="22 23"),
    *rules("sqlstate-role", CREDENTIALS, tier=Tier.STATE, sqlstates="0L 0P"),
    *rules("sqlstate-schema", CONFIGURATION, tier=Tier.STATE, sqlstates="42 0A 21"),
    *rules("sqlstate-io", UNAVAILABLE, tier=Tier.LAST, sqlstates="58 KD001"),
    *rules("sqlstate-internal", INTERNAL, tier=Tier.LAST, sqlstates="XX0 XXKD XXSC XXKCM"),
    # Delta names a fault of a table, a property or a statement. Conditions that a retry may help have a rule above,
    # or are of reading files that may be complete a moment later.
    *rules(
        "delta-refused",
        CONFIGURATION,
        tier=Tier.LAST,
        condition_pattern=r"^(DELTA_(?!ACTIVE_|VERSIONS_NOT_CONTIGUOUS|FAILED_READ_FILE_FOOTER"
        r"|STATE_RECOVER|CHECKPOINT_SNAPSHOT_MISMATCH)|RESERVED_CDC_COLUMNS|WRONG_COLUMN_DEFAULTS_FOR_DELTA)",
    ),
)
