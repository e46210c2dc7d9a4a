"""Errors of client libraries: Kafka, AWS and S3A, HTTP, databases, sockets, Python.

`reliability-guarantees.md`, Error Classification. It has `UnknownHostException` and `FileNotFoundException` retried,
where common practice gives up.
"""

from __future__ import annotations

from tidemark.resilience.decisions import (
    BUG,
    CONFIGURATION,
    CREDENTIALS,
    INVALID,
    MISSING,
    NETWORK,
    THROTTLED,
    UNAVAILABLE,
    dead_letter,
    retry,
)
from tidemark.resilience.match import Match
from tidemark.resilience.rule import Rule, Tier, rules

KAFKA = (
    *rules(
        "kafka-too-large",
        dead_letter("TOO_LARGE"),
        classes="RecordTooLargeException RecordBatchTooLargeException",
        kafka="MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_MSG_SIZE",
    ),
    *rules(
        "kafka-record",
        INVALID,
        classes="RecordDeserializationException DeserializationException SerializationException"
        " InvalidRecordException CorruptRecordException KeySerializationError ValueSerializationError"
        " KeyDeserializationError ValueDeserializationError",
        kafka="_KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION INVALID_MSG"
        " INVALID_RECORD INVALID_TIMESTAMP _BAD_MSG",
    ),
    *rules(
        "kafka-configuration",
        CONFIGURATION,
        kafka="_NOT_CONFIGURED _NOT_IMPLEMENTED _UNSUPPORTED_FEATURE UNSUPPORTED_VERSION INVALID_GROUP_ID"
        " INVALID_REQUIRED_ACKS TOPIC_EXCEPTION POLICY_VIOLATION INVALID_SESSION_TIMEOUT"
        " INCONSISTENT_GROUP_PROTOCOL UNSUPPORTED_COMPRESSION_TYPE",
    ),
    *rules("kafka-throttled", THROTTLED, kafka="THROTTLING_QUOTA_EXCEEDED _QUEUE_FULL"),
    *rules(
        "kafka-unavailable",
        UNAVAILABLE,
        kafka="_TRANSPORT _ALL_BROKERS_DOWN _RESOLVE _SSL _TIMED_OUT _MSG_TIMED_OUT _TIMED_OUT_QUEUE _WAIT_COORD"
        " _RETRY _INTR _PURGE_QUEUE _PURGE_INFLIGHT _ISR_INSUFF _ASSIGNMENT_LOST _MAX_POLL_EXCEEDED"
        " REQUEST_TIMED_OUT LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION BROKER_NOT_AVAILABLE"
        " REPLICA_NOT_AVAILABLE NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE"
        " NOT_COORDINATOR NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER"
        " KAFKA_STORAGE_ERROR UNSTABLE_OFFSET_COMMIT OFFSET_NOT_AVAILABLE FENCED_LEADER_EPOCH"
        " UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH PREFERRED_LEADER_NOT_AVAILABLE REASSIGNMENT_IN_PROGRESS"
        " REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID CONCURRENT_TRANSACTIONS"
        " UNKNOWN_TOPIC_ID FETCH_SESSION_ID_NOT_FOUND OPERATION_NOT_ATTEMPTED",
        class_pattern=r"^org\.apache\.kafka\..*\.(Timeout|Network|Disconnect|Retriable|RetriableCommitFailed"
        r"|NotEnoughReplicas\w*|NotLeader\w*|LeaderNotAvailable|BrokerNotAvailable|Coordinator\w+|NotCoordinator"
        r"|KafkaStorage|UnstableOffsetCommit|ThrottlingQuotaExceeded|RebalanceInProgress|FencedLeaderEpoch"
        r"|UnknownLeaderEpoch|OffsetNotAvailable|NotController|ReplicaNotAvailable)Exception$",
    ),
)

AWS = (
    *rules(
        "aws-throttled",
        THROTTLED,
        aws="Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException"
        " TooManyRequestsException ProvisionedThroughputExceededException TransactionInProgressException"
        " RequestLimitExceeded BandwidthLimitExceeded LimitExceededException SlowDown PriorRequestNotComplete"
        " EC2ThrottledException TooManyRequests RESOURCE_EXHAUSTED REQUEST_LIMIT_EXCEEDED",
    ),
    *rules(
        "aws-unavailable",
        UNAVAILABLE,
        aws="InternalError InternalFailure InternalServerError InternalServerException ServiceUnavailable"
        " ServiceUnavailableException OperationAborted RequestTimeTooSkewed TEMPORARILY_UNAVAILABLE"
        " INTERNAL_ERROR DEADLINE_EXCEEDED",
    ),
    *rules("missing-file", retry("MISSING_FILE"), aws="NoSuchKey 404 NotFound"),
    *rules(
        "aws-throttled",
        THROTTLED,
        classes="ThrottlingException SlowDownException AWSServiceThrottledException TooManyRequestsException"
        " TooManyRequests",
    ),
    *rules(
        "aws-unavailable",
        UNAVAILABLE,
        classes="InternalServerError InternalServerErrorException ServiceUnavailableException AWSStatus500Exception"
        " AWSNoResponseException AWSServiceIOException AWSS3IOException AWSClientIOException"
        " TemporarilyUnavailable",
    ),
    *rules(
        "aws-configuration",
        CONFIGURATION,
        classes="AWSRedirectException AWSUnsupportedFeatureException"
        " NoRegionError InvalidRegionError EndpointProviderError",
    ),
)

HTTP = (
    *rules("http-throttled", THROTTLED, http="429"),
    *rules("http-unavailable", UNAVAILABLE, http="408 425 500 502 503 504"),
    Rule("http-record", Match(http=frozenset({400, 413, 415, 422}), without_aws=True), INVALID),
    Rule("http-missing", Match(http=frozenset({404, 410}), without_aws=True), MISSING),
    *rules("http-configuration", CONFIGURATION, http="400 404 405 406 410 413 415 422 501 505"),
)

NETWORK_CLASSES = (
    *rules(
        "missing-file",
        retry("MISSING_FILE"),
        classes="FileNotFoundException FileNotFoundError NoSuchFileException",
    ),
    *rules(
        "wrong-path",
        CONFIGURATION,
        classes="ParentNotDirectoryException NotDirectoryException FileAlreadyExistsException NotADirectoryError"
        " IsADirectoryError InvalidPathException UnsupportedFileSystemException",
    ),
    *rules(
        "network",
        NETWORK,
        classes="ConnectException SocketTimeoutException UnknownHostException NoRouteToHostException SocketException"
        " ConnectTimeoutException TimeoutException EOFException SSLException SSLHandshakeException"
        " ClosedChannelException HttpTimeoutException PortUnreachableException NoHttpResponseException"
        " ConnectionError TimeoutError gaierror SSLError RemoteDisconnected IncompleteRead HTTPClientError"
        " TransportError MaxRetryError ProtocolError NewConnectionError EndpointConnectionError"
        " ConnectTimeoutError ReadTimeoutError ConnectionClosedError",
    ),
    *rules("grpc-unavailable", UNAVAILABLE, grpc="UNAVAILABLE DEADLINE_EXCEEDED RESOURCE_EXHAUSTED ABORTED"),
    *rules("database-unavailable", UNAVAILABLE, classes="OperationalError InterfaceError DisconnectionError"),
)

RECORD_CLASSES = (
    *rules(
        "invalid-record",
        INVALID,
        classes="ValidationError NumberFormatException ArithmeticException SparkArithmeticException DateTimeException"
        " SparkDateTimeException SparkNumberFormatException DateTimeParseException SchemaParseException"
        " AvroTypeException SchemaResolutionError SchemaValidationException ValidationException DataError",
    ),
    *rules(
        "bug",
        BUG,
        classes="TypeError KeyError AttributeError IndexError NameError AssertionError ZeroDivisionError"
        " RecursionError NullPointerException ClassCastException IndexOutOfBoundsException"
        " NoSuchElementException MatchError",
    ),
)

GENERAL = (
    *rules(
        "service",
        UNAVAILABLE,
        tier=Tier.GENERAL,
        classes="ServiceException SdkServiceException AwsServiceException SdkClientException SdkException"
        " S3Exception",
    ),
    *rules(
        "io",
        retry("IO"),
        tier=Tier.GENERAL,
        class_pattern=r"(^|\.|\$)\w*IOException$",
        classes="OSError FileSystemException IOError",
    ),
)

_STATUS = (
    r"(?i)\b(?:http(?:/\d(?:\.\d)?)?|status(?: ?code)?|code|response|error)\W{0,3}(?:429|50[0234])\b"
    r"|\b(?:429|50[0234])\b\W{0,3}(?:too many|internal server|bad gateway|service unavail"
    r"|gateway time|slow ?down)"
)


WORDS = (
    *rules(
        "words-credentials",
        CREDENTIALS,
        tier=Tier.WORDS_VETO,
        message=r"(?i)authenticat\w+ (?:fail|error)|authoriz\w+ (?:fail|error)|invalid credentials|unauthori[sz]ed"
        r"|not authori[sz]ed|(?:access|permission) (?:is )?denied|\bforbidden\b",
    ),
    *rules(
        "words-missing-bucket",
        MISSING,
        tier=Tier.WORDS_VETO,
        message=r"(?i)bucket\b.{0,80}(?:does not exist|not found)|no ?such ?bucket",
    ),
    *rules(
        "words-configuration",
        CONFIGURATION,
        tier=Tier.WORDS_VETO,
        message=r"(?i)configuration error|(?:invalid|missing|bad) config",
    ),
    *rules("words-malformed", dead_letter("MALFORMED"), tier=Tier.WORDS_VETO, message=r"(?i)malformed"),
    *rules(
        "words-schema",
        INVALID,
        tier=Tier.WORDS_VETO,
        message=r"(?i)schema validation|(?:does not|doesn't) match (?:the )?schema",
    ),
    *rules("words-throttled", THROTTLED, tier=Tier.WORDS, message=r"(?i)throttl|rate limit|slow ?down"),
    *rules("words-timeout", NETWORK, tier=Tier.WORDS, message=r"(?i)time[d]?[ -]?out"),
    *rules("words-connection", NETWORK, tier=Tier.WORDS, message=r"(?i)connection"),
    *rules("words-unavailable", UNAVAILABLE, tier=Tier.WORDS, message=r"(?i)unavailable"),
    *rules("words-status", UNAVAILABLE, tier=Tier.WORDS, message=_STATUS),
)
