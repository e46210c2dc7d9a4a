"""Tidemark's own errors, and what wins anywhere in a chain: credentials, missing things, malformed things.

`reliability-guarantees.md`, Non-Retriable Exceptions: authentication and authorization failures,
bucket not found, malformed messages, configuration errors.
"""

from __future__ import annotations

from tidemark.contract.failures import Action, Decision, Scope
from tidemark.resilience.decisions import (
    CONFIGURATION,
    CREDENTIALS,
    DATA_LOSS,
    EXPIRED,
    FENCED,
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
from tidemark.resilience.match import Match, one_of
from tidemark.resilience.rule import Rule, Tier

_OWN = "tidemark.contract.errors."


def _own(name: str, condition: str, class_name: str, decision: Decision) -> tuple[Rule, Rule]:
    """Told by its class where it arrives as an object, by its condition where it arrives as text."""
    return (
        Rule(name, Match(conditions=frozenset({condition})), decision, Tier.OWN),
        Rule(name, Match(classes=frozenset({_OWN + class_name})), decision, Tier.OWN),
    )


OWN = (
    *_own("own-fenced", "TIDEMARK_FENCED", "Fenced", FENCED),
    *_own("own-data-loss", "TIDEMARK_DATA_LOSS", "DataLoss", DATA_LOSS),
    *_own("own-schema", "TIDEMARK_SCHEMA", "SchemaConflict", SCHEMA),
    *_own("own-ledger", "TIDEMARK_LEDGER", "LedgerError", stop("LEDGER")),
    *_own("own-stop", "TIDEMARK_STOP", "NonRetriableError", stop("NON_RETRIABLE")),
    *_own("own-config", "TIDEMARK_CONFIG", "ConfigError", CONFIGURATION),
    *_own("own-usage", "TIDEMARK_USAGE", "UsageError", CONFIGURATION),
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

_CREDENTIAL_CLASSES = one_of(
    "PermissionError AccessDeniedException AccessControlException AuthorizationException"
    " NoAuthWithAWSException CredentialInitializationException NoCredentialsError PartialCredentialsError"
    " ProfileNotFound CredentialRetrievalError UnauthorizedException ForbiddenException"
    " PermissionDenied Unauthenticated InvalidAccessKeyIdException SSLCertVerificationError"
)
_CREDENTIAL_CODES = one_of(
    "AccessDenied AccessDeniedException AllAccessDisabled AccountProblem InvalidAccessKeyId"
    " SignatureDoesNotMatch UnrecognizedClientException InvalidClientTokenId NotSignedUp"
    " AuthorizationHeaderMalformed UnauthorizedOperation Unauthorized AuthFailure OptInRequired"
    " PERMISSION_DENIED UNAUTHENTICATED"
)
_MISSING_CONDITIONS = one_of(
    "DELTA_TABLE_NOT_FOUND DELTA_PATH_DOES_NOT_EXIST DELTA_MISSING_DELTA_TABLE DELTA_NOT_A_DELTA_TABLE"
    " DELTA_TABLE_ONLY_OPERATION DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"
    " TABLE_OR_VIEW_NOT_FOUND VIEW_NOT_FOUND SCHEMA_NOT_FOUND CATALOG_NOT_FOUND PATH_NOT_FOUND"
    " DATA_SOURCE_NOT_FOUND"
)


def _veto(name: str, match: Match, decision: Decision) -> Rule:
    return Rule(name, match, decision, Tier.VETO)


VETO = (
    # An S3 RequestTimeout is HTTP 400 and heals: the code before the status.
    _veto(
        "aws-request-timeout", Match(aws=frozenset({"RequestTimeout", "RequestTimeoutException"})), NETWORK
    ),
    _veto(
        "expired-credentials",
        Match(
            aws=frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
        ),
        EXPIRED,
    ),
    _veto("credentials-aws", Match(aws=_CREDENTIAL_CODES), CREDENTIALS),
    _veto(
        "credentials-kafka",
        Match(
            kafka_pattern=r"AUTHORIZATION_FAILED$|^_?(SASL_)?AUTHENTICATION(_FAILED)?$|_SASL_(MECHANISM|STATE)$"
        ),
        CREDENTIALS,
    ),
    _veto(
        "credentials-class",
        Match(class_pattern=r"(Authentication|Authorization)(Failed)?(Exception|Error)$"),
        CREDENTIALS,
    ),
    _veto("credentials-class", Match(classes=_CREDENTIAL_CLASSES), CREDENTIALS),
    _veto("credentials-http", Match(http=frozenset({401, 403, 407, 511})), CREDENTIALS),
    _veto("credentials-grpc", Match(grpc=frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})), CREDENTIALS),
    _veto("credentials-sqlstate", Match(sqlstates=("28", "42501")), CREDENTIALS),
    _veto(
        "permission-denied",
        Match(
            class_pattern=r"(IO|FileNotFound|FileSystem)Exception$|ExitCodeException$",
            message="Permission denied",
        ),
        CREDENTIALS,
    ),
    _veto(
        "missing-bucket",
        Match(aws=frozenset({"NoSuchBucket", "InvalidBucketName"})),
        MISSING,
    ),
    _veto(
        "missing-bucket",
        Match(classes=frozenset({"NoSuchBucketException", "NoSuchBucket", "UnknownStoreException"})),
        MISSING,
    ),
    # Metadata of a topic just made, or of a broker just started, may lag: the end is a stop all the same.
    _veto(
        "missing-topic",
        Match(kafka=one_of("UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION")),
        MISSING_TOPIC,
    ),
    _veto(
        "missing-topic",
        Match(classes=frozenset({"UnknownTopicOrPartitionException", "UnknownTopicIdException"})),
        MISSING_TOPIC,
    ),
    _veto("missing-table", Match(conditions=_MISSING_CONDITIONS), MISSING),
    _veto(
        "malformed-record",
        Match(
            conditions=one_of(
                "MALFORMED_RECORD_IN_PARSING MALFORMED_CSV_RECORD MALFORMED_AVRO_MESSAGE"
                " AVRO_CANNOT_PARSE KAFKA_MALFORMED_RECORD_TIMESTAMP"
            )
        ),
        MALFORMED,
    ),
    _veto(
        "malformed-record",
        Match(
            classes=one_of(
                "JSONDecodeError JsonParseException JsonMappingException MalformedInputException"
                " UnicodeError CharacterCodingException BadRecordException"
            )
        ),
        MALFORMED,
    ),
    _veto(
        "malformed-request",
        Match(classes=frozenset({"AWSBadRequestException", "ParamValidationError"})),
        CONFIGURATION,
    ),
    _veto(
        "configuration-kafka",
        Match(classes=one_of("InvalidConfigurationException org.apache.kafka.common.config.ConfigException")),
        CONFIGURATION,
    ),
    _veto("configuration-kafka", Match(kafka=frozenset({"INVALID_CONFIG", "_INVALID_ARG"})), CONFIGURATION),
    _veto("configuration-kafka", Match(conditions=frozenset({"MISSING_KAFKA_OPTION"})), CONFIGURATION),
    _veto("kafka-fatal", Match(fatal=True), FENCED),
    _veto(
        "kafka-fenced",
        Match(kafka=frozenset({"_FENCED", "_FATAL", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})),
        FENCED,
    ),
    _veto(
        "kafka-fenced",
        Match(
            classes=frozenset(
                {"ProducerFencedException", "InvalidProducerEpochException", "FencedInstanceIdException"}
            )
        ),
        FENCED,
    ),
    # Two writers with one transaction id, or two queries on one checkpoint.
    _veto(
        "second-writer",
        Match(conditions=frozenset({"DELTA_CONCURRENT_TRANSACTION", "CONCURRENT_STREAM_LOG_UPDATE"})),
        FENCED,
    ),
    _veto("second-writer", Match(classes=frozenset({"ConcurrentTransactionException"})), FENCED),
    # A segment with a wrong checksum: the client gives up the partition there, and so does every retry.
    _veto(
        "unreadable",
        Match(message=r"Record (?:batch )?for partition \S+ at offset \d+ is invalid"),
        DATA_LOSS,
    ),
    _veto("data-loss", Match(conditions=frozenset({"KAFKA_DATA_LOSS"})), DATA_LOSS),
    _veto("data-loss", Match(kafka=frozenset({"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"})), DATA_LOSS),
    _veto(
        "data-loss", Match(classes=frozenset({"OffsetOutOfRangeException", "OffsetOutOfRange"})), DATA_LOSS
    ),
)

PUBLIC = (
    Rule("own-retriable", Match(conditions=frozenset({"TIDEMARK_RETRIABLE"})), retry("RETRIABLE")),
    Rule("own-retriable", Match(classes=frozenset({_OWN + "RetriableError"})), retry("RETRIABLE")),
)
"""What users raise as retriable; a veto in its cause still wins."""
