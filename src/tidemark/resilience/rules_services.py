"""Kafka, AWS and S3A, HTTP, databases, sockets, Python: what a client library raises.

`reliability-guarantees.md`, Error Classification. Where general practice gives up sooner
(`UnknownHostException`, `FileNotFoundException`), that document holds: both are retried.
"""

from __future__ import annotations

from tidemark.contract.failures import Decision
from tidemark.resilience.decisions import (
    BUG,
    CONFIGURATION,
    INVALID,
    MISSING,
    NETWORK,
    THROTTLED,
    UNAVAILABLE,
    dead_letter,
    retry,
)
from tidemark.resilience.match import Match, one_of
from tidemark.resilience.rule import Rule, Tier


def _classes(name: str, classes: str, decision: Decision, tier: Tier = Tier.SPECIFIC) -> Rule:
    return Rule(name, Match(classes=one_of(classes)), decision, tier)


def _kafka(name: str, codes: str, decision: Decision) -> Rule:
    return Rule(name, Match(kafka=one_of(codes)), decision)


def _aws(name: str, codes: str, decision: Decision) -> Rule:
    return Rule(name, Match(aws=one_of(codes)), decision)


def _http(name: str, codes: str, decision: Decision, *, without_aws: bool = False) -> Rule:
    return Rule(name, Match(http=frozenset(map(int, codes.split())), without_aws=without_aws), decision)


KAFKA = (
    _classes(
        "kafka-too-large", "RecordTooLargeException RecordBatchTooLargeException", dead_letter("TOO_LARGE")
    ),
    _kafka(
        "kafka-too-large",
        "MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_MSG_SIZE",
        dead_letter("TOO_LARGE"),
    ),
    _classes(
        "kafka-record",
        "RecordDeserializationException DeserializationException SerializationException"
        " InvalidRecordException CorruptRecordException KeySerializationError ValueSerializationError"
        " KeyDeserializationError ValueDeserializationError",
        INVALID,
    ),
    _kafka(
        "kafka-record",
        "_KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION INVALID_MSG"
        " INVALID_RECORD INVALID_TIMESTAMP _BAD_MSG",
        INVALID,
    ),
    _kafka(
        "kafka-configuration",
        "_NOT_CONFIGURED _NOT_IMPLEMENTED _UNSUPPORTED_FEATURE UNSUPPORTED_VERSION INVALID_GROUP_ID"
        " INVALID_REQUIRED_ACKS TOPIC_EXCEPTION POLICY_VIOLATION INVALID_SESSION_TIMEOUT"
        " INCONSISTENT_GROUP_PROTOCOL UNSUPPORTED_COMPRESSION_TYPE",
        CONFIGURATION,
    ),
    _kafka("kafka-throttled", "THROTTLING_QUOTA_EXCEEDED _QUEUE_FULL", THROTTLED),
    _kafka(
        "kafka-unavailable",
        "_TRANSPORT _ALL_BROKERS_DOWN _RESOLVE _SSL _TIMED_OUT _MSG_TIMED_OUT _TIMED_OUT_QUEUE _WAIT_COORD"
        " _RETRY _INTR _PURGE_QUEUE _PURGE_INFLIGHT _ISR_INSUFF _ASSIGNMENT_LOST _MAX_POLL_EXCEEDED"
        " REQUEST_TIMED_OUT LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION BROKER_NOT_AVAILABLE"
        " REPLICA_NOT_AVAILABLE NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE"
        " NOT_COORDINATOR NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER"
        " KAFKA_STORAGE_ERROR UNSTABLE_OFFSET_COMMIT OFFSET_NOT_AVAILABLE FENCED_LEADER_EPOCH"
        " UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH PREFERRED_LEADER_NOT_AVAILABLE REASSIGNMENT_IN_PROGRESS"
        " REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID CONCURRENT_TRANSACTIONS"
        " UNKNOWN_TOPIC_ID FETCH_SESSION_ID_NOT_FOUND OPERATION_NOT_ATTEMPTED",
        UNAVAILABLE,
    ),
    Rule(
        "kafka-unavailable",
        Match(
            class_pattern=r"^org\.apache\.kafka\..*\.(Timeout|Network|Disconnect|Retriable|RetriableCommitFailed"
            r"|NotEnoughReplicas\w*|NotLeader\w*|LeaderNotAvailable|BrokerNotAvailable|Coordinator\w+|NotCoordinator"
            r"|KafkaStorage|UnstableOffsetCommit|ThrottlingQuotaExceeded|RebalanceInProgress|FencedLeaderEpoch"
            r"|UnknownLeaderEpoch|OffsetNotAvailable|NotController|ReplicaNotAvailable)Exception$"
        ),
        UNAVAILABLE,
    ),
)

AWS = (
    _aws(
        "aws-throttled",
        "Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException"
        " TooManyRequestsException ProvisionedThroughputExceededException TransactionInProgressException"
        " RequestLimitExceeded BandwidthLimitExceeded LimitExceededException SlowDown PriorRequestNotComplete"
        " EC2ThrottledException TooManyRequests RESOURCE_EXHAUSTED REQUEST_LIMIT_EXCEEDED",
        THROTTLED,
    ),
    _aws(
        "aws-unavailable",
        "InternalError InternalFailure InternalServerError InternalServerException ServiceUnavailable"
        " ServiceUnavailableException OperationAborted RequestTimeTooSkewed TEMPORARILY_UNAVAILABLE"
        " INTERNAL_ERROR DEADLINE_EXCEEDED",
        UNAVAILABLE,
    ),
    _aws("missing-file", "NoSuchKey 404 NotFound", retry("MISSING_FILE")),
    _classes(
        "aws-throttled",
        "ThrottlingException SlowDownException AWSServiceThrottledException TooManyRequestsException"
        " TooManyRequests",
        THROTTLED,
    ),
    _classes(
        "aws-unavailable",
        "InternalServerError InternalServerErrorException ServiceUnavailableException AWSStatus500Exception"
        " AWSNoResponseException AWSServiceIOException AWSS3IOException AWSClientIOException"
        " TemporarilyUnavailable",
        UNAVAILABLE,
    ),
    _classes(
        "aws-configuration",
        "AWSRedirectException AWSUnsupportedFeatureException"
        " NoRegionError InvalidRegionError EndpointProviderError",
        CONFIGURATION,
    ),
)

HTTP = (
    _http("http-throttled", "429", THROTTLED),
    _http("http-unavailable", "408 425 500 502 503 504", UNAVAILABLE),
    _http("http-record", "400 413 415 422", INVALID, without_aws=True),
    _http("http-missing", "404 410", MISSING, without_aws=True),
    _http("http-configuration", "400 404 405 406 410 413 415 422 501 505", CONFIGURATION),
)

NETWORK_CLASSES = (
    _classes(
        "missing-file", "FileNotFoundException FileNotFoundError NoSuchFileException", retry("MISSING_FILE")
    ),
    _classes(
        "wrong-path",
        "ParentNotDirectoryException NotDirectoryException FileAlreadyExistsException NotADirectoryError"
        " IsADirectoryError InvalidPathException UnsupportedFileSystemException",
        CONFIGURATION,
    ),
    _classes(
        "network",
        "ConnectException SocketTimeoutException UnknownHostException NoRouteToHostException SocketException"
        " ConnectTimeoutException TimeoutException EOFException SSLException SSLHandshakeException"
        " ClosedChannelException HttpTimeoutException PortUnreachableException NoHttpResponseException",
        NETWORK,
    ),
    _classes(
        "network",
        "ConnectionError TimeoutError gaierror SSLError RemoteDisconnected IncompleteRead HTTPClientError"
        " TransportError MaxRetryError ProtocolError NewConnectionError EndpointConnectionError"
        " ConnectTimeoutError ReadTimeoutError ConnectionClosedError",
        NETWORK,
    ),
    Rule(
        "grpc-unavailable",
        Match(grpc=frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED"})),
        UNAVAILABLE,
    ),
    _classes("database-unavailable", "OperationalError InterfaceError DisconnectionError", UNAVAILABLE),
)

RECORD_CLASSES = (
    _classes(
        "invalid-record",
        "ValidationError NumberFormatException ArithmeticException SparkArithmeticException DateTimeException"
        " SparkDateTimeException SparkNumberFormatException DateTimeParseException SchemaParseException"
        " AvroTypeException SchemaResolutionError SchemaValidationException ValidationException DataError",
        INVALID,
    ),
    _classes(
        "bug",
        "TypeError KeyError AttributeError IndexError NameError AssertionError ZeroDivisionError"
        " RecursionError NullPointerException ClassCastException IndexOutOfBoundsException"
        " NoSuchElementException MatchError",
        BUG,
    ),
)

GENERAL = (
    _classes(
        "service",
        "ServiceException SdkServiceException AwsServiceException SdkClientException SdkException"
        " S3Exception",
        UNAVAILABLE,
        Tier.GENERAL,
    ),
    Rule("io", Match(class_pattern=r"(^|\.|\$)\w*IOException$"), retry("IO"), Tier.GENERAL),
    _classes("io", "OSError FileSystemException IOError", retry("IO"), Tier.GENERAL),
)

_STATUS = (
    r"(?i)\b(?:http(?:/\d(?:\.\d)?)?|status(?: ?code)?|code|response|error)\W{0,3}(?:429|50[0234])\b"
    r"|\b(?:429|50[0234])\b\W{0,3}(?:too many|internal server|bad gateway|service unavail"
    r"|gateway time|slow ?down)"
)


def _words(name: str, pattern: str, decision: Decision, tier: Tier) -> Rule:
    return Rule(name, Match(message=pattern), decision, tier)


WORDS = (
    _words(
        "words-credentials",
        r"(?i)authenticat\w+ (?:fail|error)|authoriz\w+ (?:fail|error)|invalid credentials|unauthori[sz]ed"
        r"|not authori[sz]ed|(?:access|permission) (?:is )?denied|\bforbidden\b",
        Decision("CREDENTIALS", CONFIGURATION.action, CONFIGURATION.scope),
        Tier.WORDS_VETO,
    ),
    _words(
        "words-missing-bucket",
        r"(?i)bucket\b.{0,80}(?:does not exist|not found)|no ?such ?bucket",
        MISSING,
        Tier.WORDS_VETO,
    ),
    _words(
        "words-configuration",
        r"(?i)configuration error|(?:invalid|missing|bad) config",
        CONFIGURATION,
        Tier.WORDS_VETO,
    ),
    _words("words-malformed", r"(?i)malformed", dead_letter("MALFORMED"), Tier.WORDS_VETO),
    _words(
        "words-schema",
        r"(?i)schema validation|(?:does not|doesn't) match (?:the )?schema",
        INVALID,
        Tier.WORDS_VETO,
    ),
    _words("words-throttled", r"(?i)throttl|rate limit|slow ?down", THROTTLED, Tier.WORDS),
    _words("words-timeout", r"(?i)time[d]?[ -]?out", NETWORK, Tier.WORDS),
    _words("words-connection", r"(?i)connection", NETWORK, Tier.WORDS),
    _words("words-unavailable", r"(?i)unavailable", UNAVAILABLE, Tier.WORDS),
    _words("words-status", _STATUS, UNAVAILABLE, Tier.WORDS),
)
