"""Tidemark's own errors, and the vetoes: credentials, missing things, malformed things.

`reliability-guarantees.md`, Non-Retriable Exceptions: authentication and authorization failures,
bucket not found, malformed messages, configuration errors.
"""

from __future__ import annotations

from functools import partial

from tidemark.contract.failures import Action, Decision, Scope
from tidemark.resilience.decisions import (
    CONFIGURATION,
    CREDENTIALS,
    DATA_LOSS,
    EXPIRED,
    FENCED,
    LOCKED,
    MALFORMED,
    MISSING,
    MISSING_TOPIC,
    NETWORK,
    RESTART,
    SCHEMA,
    SHUTDOWN,
    retry,
    stop,
)
from tidemark.resilience.match import Match
from tidemark.resilience.rule import Rule, Tier, rules

_OWN = "tidemark.contract.errors."


def _own(name: str, condition: str, class_name: str, decision: Decision) -> tuple[Rule, ...]:
    """By its class where the error arrives as an object, by its condition where it arrives as text."""
    return rules(name, decision, tier=Tier.OWN, conditions=condition, classes=_OWN + class_name)


OWN = (
    *_own("own-fenced", "TIDEMARK_FENCED", "Fenced", FENCED),
    *_own("own-data-loss", "TIDEMARK_DATA_LOSS", "DataLoss", DATA_LOSS),
    *_own("own-schema", "TIDEMARK_SCHEMA", "SchemaConflict", SCHEMA),
    *_own("own-ledger", "TIDEMARK_LEDGER", "LedgerError", stop("LEDGER")),
    *_own("own-stop", "TIDEMARK_STOP", "NonRetriableError", stop("NON_RETRIABLE")),
    *_own("own-config", "TIDEMARK_CONFIG", "ConfigError", CONFIGURATION),
    *_own("own-usage", "TIDEMARK_USAGE", "UsageError", CONFIGURATION),
    *_own("own-locked", "TIDEMARK_LOCKED", "Locked", LOCKED),
    *_own("own-restart", "TIDEMARK_RESTART", "RestartStream", RESTART),
    *_own("own-shutdown", "TIDEMARK_SHUTDOWN", "ShutdownRequested", SHUTDOWN),
    *_own(
        "own-exhausted",
        "TIDEMARK_EXHAUSTED",
        "RetriesExhausted",
        Decision("EXHAUSTED", Action.RESTART_QUERY, Scope.DEPENDENCY),
    ),
    *_own(
        "own-breaker-open",
        "TIDEMARK_BREAKER_OPEN",
        "BreakerOpen",
        Decision("BREAKER_OPEN", Action.RETRY, Scope.DEPENDENCY),
    ),
)

_veto = partial(rules, tier=Tier.VETO)

VETO = (
    # An S3 RequestTimeout is HTTP 400 and a retry helps: the code before the status.
    *_veto("aws-request-timeout", NETWORK, aws="RequestTimeout RequestTimeoutException"),
    *_veto(
        "expired-credentials",
        EXPIRED,
        aws="ExpiredToken ExpiredTokenException RequestExpired TokenRefreshRequired",
    ),
    *_veto(
        "credentials-aws",
        CREDENTIALS,
        aws="AccessDenied AccessDeniedException AllAccessDisabled AccountProblem InvalidAccessKeyId"
        " SignatureDoesNotMatch UnrecognizedClientException InvalidClientTokenId NotSignedUp"
        " AuthorizationHeaderMalformed UnauthorizedOperation Unauthorized AuthFailure OptInRequired"
        " PERMISSION_DENIED UNAUTHENTICATED",
    ),
    *_veto(
        "credentials-kafka",
        CREDENTIALS,
        kafka_pattern=r"AUTHORIZATION_FAILED$|^_?(SASL_)?AUTHENTICATION(_FAILED)?$|_SASL_(MECHANISM|STATE)$",
    ),
    *_veto(
        "credentials-class",
        CREDENTIALS,
        class_pattern=r"(Authentication|Authorization)(Failed)?(Exception|Error)$",
        classes="PermissionError AccessDeniedException AccessControlException AuthorizationException"
        " NoAuthWithAWSException CredentialInitializationException NoCredentialsError PartialCredentialsError"
        " ProfileNotFound CredentialRetrievalError UnauthorizedException ForbiddenException"
        " PermissionDenied Unauthenticated InvalidAccessKeyIdException SSLCertVerificationError",
    ),
    *_veto("credentials-http", CREDENTIALS, http="401 403 407 511"),
    *_veto("credentials-grpc", CREDENTIALS, grpc="UNAUTHENTICATED PERMISSION_DENIED"),
    *_veto("credentials-sqlstate", CREDENTIALS, sqlstates="28 42501"),
    Rule(
        "permission-denied",
        Match(
            class_pattern=r"(IO|FileNotFound|FileSystem)Exception$|ExitCodeException$",
            message="Permission denied",
        ),
        CREDENTIALS,
        Tier.VETO,
    ),
    *_veto(
        "missing-bucket",
        MISSING,
        aws="NoSuchBucket InvalidBucketName",
        classes="NoSuchBucketException NoSuchBucket UnknownStoreException",
    ),
    # Metadata of a new topic, or of a broker that just started, may lag: retried first, then a stop.
    *_veto(
        "missing-topic",
        MISSING_TOPIC,
        kafka="UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION",
        classes="UnknownTopicOrPartitionException UnknownTopicIdException",
    ),
    *_veto(
        "missing-table",
        MISSING,
        conditions="DELTA_TABLE_NOT_FOUND DELTA_PATH_DOES_NOT_EXIST DELTA_MISSING_DELTA_TABLE DELTA_NOT_A_DELTA_TABLE"
        " DELTA_TABLE_ONLY_OPERATION DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"
        " TABLE_OR_VIEW_NOT_FOUND VIEW_NOT_FOUND SCHEMA_NOT_FOUND CATALOG_NOT_FOUND PATH_NOT_FOUND"
        " DATA_SOURCE_NOT_FOUND",
    ),
    *_veto(
        "malformed-record",
        MALFORMED,
        conditions="MALFORMED_RECORD_IN_PARSING MALFORMED_CSV_RECORD MALFORMED_AVRO_MESSAGE"
        " AVRO_CANNOT_PARSE KAFKA_MALFORMED_RECORD_TIMESTAMP",
        classes="JSONDecodeError JsonParseException JsonMappingException MalformedInputException"
        " UnicodeError CharacterCodingException BadRecordException",
    ),
    *_veto("malformed-request", CONFIGURATION, classes="AWSBadRequestException ParamValidationError"),
    *_veto(
        "configuration-kafka",
        CONFIGURATION,
        classes="InvalidConfigurationException org.apache.kafka.common.config.ConfigException",
        kafka="INVALID_CONFIG _INVALID_ARG",
        conditions="MISSING_KAFKA_OPTION",
    ),
    Rule("kafka-fatal", Match(fatal=True), FENCED, Tier.VETO),
    *_veto(
        "kafka-fenced",
        FENCED,
        kafka="_FENCED _FATAL PRODUCER_FENCED INVALID_PRODUCER_EPOCH",
        classes="ProducerFencedException InvalidProducerEpochException FencedInstanceIdException",
    ),
    # Two writers with one transaction id, or two queries on one checkpoint.
    *_veto(
        "second-writer",
        FENCED,
        conditions="DELTA_CONCURRENT_TRANSACTION CONCURRENT_STREAM_LOG_UPDATE",
        classes="ConcurrentTransactionException",
    ),
    # A segment with a wrong checksum: the client gives up the partition there, and so does every retry.
    *_veto("unreadable", DATA_LOSS, message=r"Record (?:batch )?for partition \S+ at offset \d+ is invalid"),
    *_veto(
        "data-loss",
        DATA_LOSS,
        conditions="KAFKA_DATA_LOSS",
        kafka="OFFSET_OUT_OF_RANGE _AUTO_OFFSET_RESET",
        classes="OffsetOutOfRangeException OffsetOutOfRange",
    ),
)

PUBLIC = rules(
    "own-retriable", retry("RETRIABLE"), conditions="TIDEMARK_RETRIABLE", classes=f"{_OWN}RetriableError"
)
"""Errors that users raise as retriable; a veto in the cause still wins."""
