"""Delta and Spark by condition and class. SQLSTATEs where no condition is known."""

from __future__ import annotations

from tidemark.contract.failures import Decision
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
from tidemark.resilience.match import Match, one_of
from tidemark.resilience.rule import Rule, Tier


def _condition(name: str, conditions: str, decision: Decision) -> Rule:
    return Rule(name, Match(conditions=one_of(conditions)), decision)


def _class(name: str, classes: str, decision: Decision) -> Rule:
    return Rule(name, Match(classes=one_of(classes)), decision)


DELTA = (
    _condition(
        "delta-conflict",
        "DELTA_CONCURRENT_APPEND DELTA_CONCURRENT_DELETE_READ DELTA_CONCURRENT_DELETE_DELETE"
        " DELTA_CONCURRENT_WRITE DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
        CONFLICT,
    ),
    _class(
        "delta-conflict",
        "ConcurrentAppendException ConcurrentDeleteReadException ConcurrentDeleteDeleteException"
        " ConcurrentWriteException DeltaConcurrentModificationException",
        CONFLICT,
    ),
    _condition("delta-table-changed", "DELTA_METADATA_CHANGED DELTA_PROTOCOL_CHANGED", TABLE_CHANGED),
    _class("delta-table-changed", "MetadataChangedException ProtocolChangedException", TABLE_CHANGED),
    _class("concurrent-modification", "ConcurrentModificationException", CONFLICT),
    _condition("delta-committed", "DELTA_POST_COMMIT_HOOK_FAILED", COMMITTED),
    Rule(
        "delta-schema-changed",
        Match(condition_pattern=r"^DELTA_(SCHEMA_CHANGED|STREAMING_(SCHEMA_MISMATCH|METADATA_EVOLUTION))"),
        RESTART,
    ),
    _condition(
        "delta-invalid-rows",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
        " DELTA_EXCEED_CHAR_VARCHAR_LIMIT EXCEED_LIMIT_LENGTH",
        INVALID,
    ),
    _condition("delta-plan-outdated", "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", RESTART),
    _condition(
        "delta-table-busy",
        "DELTA_COMMIT_INTERMEDIATE_REDIRECT_STATE DELTA_FAILED_READ_FILE_FOOTER"
        " DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",
        UNAVAILABLE,
    ),
    _condition("delta-missing-file", "DELTA_VERSIONS_NOT_CONTIGUOUS", MISSING_FILE),
    _condition(
        "delta-schema",
        "DELTA_METADATA_MISMATCH DELTA_FAILED_TO_MERGE_FIELDS DELTA_MERGE_INCOMPATIBLE_DATATYPE"
        " DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE DELTA_MISSING_COLUMN",
        SCHEMA,
    ),
    Rule(
        "delta-missing-file",
        Match(
            condition_pattern=r"^DELTA_((LOG_)?FILE_(OR_DIR_)?NOT_FOUND|TRUNCATED_TRANSACTION_LOG|EMPTY_DIRECTORY)"
        ),
        MISSING_FILE,
    ),
    Rule(
        "kafka-source-restart",
        Match(
            condition_pattern=r"WITH_TRIGGER_AVAILABLENOW$|^MISMATCHED_TOPIC_PARTITIONS_|^END_OFFSET_HAS_GREATER"
        ),
        RESTART,
    ),
    Rule("spark-executor-lost", Match(class_pattern=r"^(ExecutorLostFailure|FetchFailed)"), UNAVAILABLE),
    _class("spark-executor-lost", "FetchFailedException MetadataFetchFailedException", UNAVAILABLE),
    # Rows that were kept on an executor that is gone: the batch is created again from Kafka.
    _condition("spark-kept-rows-lost", "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", RESTART),
    _class("spark-read-file", "ParquetDecodingException", INTERNAL),
)

STOPPED = (
    _class(
        "interrupted",
        "KeyboardInterrupt SystemExit CancelledError InterruptedException ClosedByInterruptException"
        " java.io.InterruptedIOException TaskKilledException",
        SHUTDOWN,
    ),
    _class(
        "jvm-gone",
        "Py4JNetworkError OutOfMemoryError MemoryError StackOverflowError NoClassDefFoundError"
        " ClassNotFoundException NoSuchMethodError ImportError SyntaxError UnsupportedClassVersionError",
        INTERNAL,
    ),
    Rule(
        "spark-stopped",
        Match(message=r"stopped SparkContext|SparkContext (has been|was) (stopped|shut ?down)"),
        INTERNAL,
    ),
    _class(
        "spark-plan",
        "AnalysisException ParseException IllegalArgumentException UnsupportedOperationException",
        CONFIGURATION,
    ),
)


def _state(name: str, states: str, decision: Decision, tier: Tier = Tier.STATE) -> Rule:
    return Rule(name, Match(sqlstates=tuple(states.split())), decision, tier)


# XXKST, 39000, 58030 and KD001 only wrap what matters; 28 is a veto.
SQLSTATES = (
    _state("sqlstate-conflict", "2D521", CONFLICT),
    _state("sqlstate-connection", "08 40 53 55P03 57", UNAVAILABLE),
    _state("sqlstate-data", "22 23", INVALID),
    _state("sqlstate-role", "0L 0P", CREDENTIALS),
    _state("sqlstate-schema", "42 0A 21", CONFIGURATION),
    _state("sqlstate-io", "58 KD001", UNAVAILABLE, Tier.LAST),
    _state("sqlstate-internal", "XX0 XXKD XXSC XXKCM", INTERNAL, Tier.LAST),
    # Delta names what is wrong with a table, a property or a statement. What may heal has a rule above, or is
    # a reading of files that may be complete a moment later.
    Rule(
        "delta-refused",
        Match(
            condition_pattern=r"^(DELTA_(?!ACTIVE_|VERSIONS_NOT_CONTIGUOUS|FAILED_READ_FILE_FOOTER"
            r"|STATE_RECOVER|CHECKPOINT_SNAPSHOT_MISMATCH)|RESERVED_CDC_COLUMNS|WRONG_COLUMN_DEFAULTS_FOR_DELTA)"
        ),
        CONFIGURATION,
        Tier.LAST,
    ),
)
