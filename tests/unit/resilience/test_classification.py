"""Which rule decides, and how configuration and plug-ins change that."""

from __future__ import annotations

import asyncio
import pickle
from importlib.metadata import EntryPoint

import confluent_kafka as kafka
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from pydantic import ValidationError

from tidemark.config.failures import FailureRule
from tidemark.contract.backoff import Backoff
from tidemark.contract.errors import (
    BreakerOpen,
    ConfigError,
    DataLoss,
    Fenced,
    LedgerError,
    NonRetriableError,
    RestartStream,
    RetriableError,
    RetriesExhausted,
    SchemaConflict,
    ShutdownRequested,
    TidemarkError,
)
from tidemark.contract.failures import Action, ErrorInfo, Link, Scope
from tidemark.resilience.classification import BUILT_IN, Classifier, classifier_for, installed_rules
from tidemark.resilience.decisions import MISSING_TOPIC, stop
from tidemark.resilience.error_info import error_info_of
from tidemark.resilience.rule import Rule

classify = Classifier().classify

OWN = [
    (Fenced("x"), Action.STOP, "FENCED"),
    (LedgerError("x"), Action.STOP, "LEDGER"),
    (DataLoss("x"), Action.STOP, "DATA_LOSS"),
    (SchemaConflict("x"), Action.STOP, "SCHEMA"),
    (NonRetriableError("x"), Action.STOP, "NON_RETRIABLE"),
    (ConfigError("x"), Action.STOP, "CONFIGURATION"),
    (RetriableError("x"), Action.RETRY, "RETRIABLE"),
    (RestartStream("x"), Action.RESTART_QUERY, "RESTART"),
    (RetriesExhausted("x"), Action.RESTART_QUERY, "EXHAUSTED"),
    (BreakerOpen("x"), Action.RETRY, "BREAKER_OPEN"),
    (ShutdownRequested("x"), Action.SHUTDOWN, "SHUTDOWN"),
]
DELTA = [
    ("DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT", "2D521", Action.RETRY_OP),
    ("DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT", "2D521", Action.RETRY_OP),
    ("DELTA_CONCURRENT_DELETE_DELETE", "2D521", Action.RETRY_OP),
    ("DELTA_CONCURRENT_WRITE", "2D521", Action.RETRY_OP),
    ("DELTA_METADATA_CHANGED", "2D521", Action.RETRY_OP),
    ("DELTA_PROTOCOL_CHANGED", "2D521", Action.RETRY_OP),
    ("DELTA_CONCURRENT_TRANSACTION", "2D521", Action.STOP),
    ("DELTA_MAX_COMMIT_RETRIES_EXCEEDED", "40000", Action.RETRY_OP),
    ("DELTA_POST_COMMIT_HOOK_FAILED", "2DKD0", Action.TREAT_AS_SUCCESS),
    ("DELTA_SCHEMA_CHANGED_WITH_VERSION", "KD007", Action.RESTART_QUERY),
    ("DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART", "KD007", Action.RESTART_QUERY),
    ("DELTA_STREAMING_METADATA_EVOLUTION", "22000", Action.RESTART_QUERY),
    ("DELTA_METADATA_MISMATCH.SCHEMA_MISMATCH", "42KDG", Action.STOP),
    ("DELTA_FAILED_TO_MERGE_FIELDS", "22005", Action.STOP),
    ("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "23502", Action.DLQ),
    ("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001", Action.DLQ),
    ("DELTA_FILE_NOT_FOUND", "42K03", Action.RETRY),
    ("DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE", "42K03", Action.RETRY),
    ("DELTA_TRUNCATED_TRANSACTION_LOG", "42K03", Action.RETRY),
    ("DELTA_TABLE_NOT_FOUND", "42P01", Action.STOP),
    ("DELTA_PATH_DOES_NOT_EXIST", "42K03", Action.STOP),
    ("KAFKA_DATA_LOSS.START_OFFSET_RESET", "22000", Action.STOP),
    ("LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW", None, Action.RESTART_QUERY),
    ("MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED", None, Action.RESTART_QUERY),
    ("END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED", None, Action.RESTART_QUERY),
    (None, "08001", Action.RETRY),
    (None, "40001", Action.RETRY),
    (None, "2D521", Action.RETRY_OP),
    (None, "22003", Action.DLQ),
    (None, "23505", Action.DLQ),
    (None, "42601", Action.STOP),
    (None, "0A000", Action.STOP),
    (None, "28P01", Action.STOP),
    (None, "XX000", Action.STOP),
]
KAFKA = [
    ("_TRANSPORT", Action.RETRY),
    ("_ALL_BROKERS_DOWN", Action.RETRY),
    ("_TIMED_OUT", Action.RETRY),
    ("_MSG_TIMED_OUT", Action.RETRY),
    ("REQUEST_TIMED_OUT", Action.RETRY),
    ("LEADER_NOT_AVAILABLE", Action.RETRY),
    ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", Action.RETRY),
    ("MSG_SIZE_TOO_LARGE", Action.DLQ),
    ("INVALID_TIMESTAMP", Action.DLQ),
    ("_UNKNOWN_PARTITION", Action.RETRY),
    ("UNKNOWN_TOPIC_OR_PART", Action.RETRY),
    ("_VALUE_DESERIALIZATION", Action.DLQ),
    ("_AUTHENTICATION", Action.STOP),
    ("SASL_AUTHENTICATION_FAILED", Action.STOP),
    ("TOPIC_AUTHORIZATION_FAILED", Action.STOP),
    ("GROUP_AUTHORIZATION_FAILED", Action.STOP),
    ("OFFSET_OUT_OF_RANGE", Action.STOP),
    ("_FENCED", Action.STOP),
]
CODES = [
    ("SlowDown", 503, Action.RETRY),
    ("Throttling", 400, Action.RETRY),
    ("RequestTimeout", 400, Action.RETRY),
    ("InternalError", 500, Action.RETRY),
    ("NoSuchKey", 404, Action.RETRY),
    ("Unheard", 503, Action.RETRY),
    ("NoSuchBucket", 404, Action.STOP),
    ("AccessDenied", 403, Action.STOP),
    ("InvalidAccessKeyId", 403, Action.STOP),
    ("SignatureDoesNotMatch", 403, Action.STOP),
    ("Unheard", 400, Action.STOP),
]


@pytest.mark.parametrize(("error", "action", "category"), OWN, ids=[type(row[0]).__name__ for row in OWN])
@pytest.mark.parametrize("as_text", [False, True])
def test_own_error_is_known_when_it_comes_as_object_or_as_text(
    error: TidemarkError, action: Action, category: str, as_text: bool
) -> None:
    trace = f"pyspark.errors.exceptions.connect.SparkException: [STREAM_FAILED] boom\nCaused by: x.Y: {error}"
    decision = classify(trace if as_text else error)
    assert (decision.action, decision.category) == (action, category)


def test_users_error_is_known_when_it_is_a_subclass() -> None:
    class Mine(NonRetriableError):
        condition = "MINE"

    assert classify(Mine("x")).action is Action.STOP


@pytest.mark.parametrize(("condition", "sqlstate", "action"), DELTA, ids=[f"{r[0]}-{r[1]}" for r in DELTA])
def test_verdict_follows_when_delta_or_spark_names_a_condition(
    condition: str | None, sqlstate: str | None, action: Action
) -> None:
    error_info = ErrorInfo((Link("org.apache.spark.SparkException", condition=condition, sqlstate=sqlstate),))
    assert classify(error_info).action is action


@pytest.mark.guarantee("case: time-05")
@pytest.mark.parametrize(("code", "action"), KAFKA)
def test_verdict_follows_when_librdkafka_gives_a_code(code: str, action: Action) -> None:
    error = kafka.KafkaException(kafka.KafkaError(getattr(kafka.KafkaError, code)))
    assert classify(error).action is action


@pytest.mark.parametrize(("code", "status", "action"), CODES)
def test_verdict_follows_when_aws_gives_a_code(code: str, status: int, action: Action) -> None:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert classify(ClientError(answer, "PutObject")).action is action


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError()])
def test_end_of_the_process_is_no_failure_when_it_is_asked_for(error: BaseException) -> None:
    assert classify(error).action is Action.SHUTDOWN


def test_stopping_query_is_no_failure_when_its_handler_is_interrupted() -> None:
    text = (
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.\n: java.lang.InterruptedException"
    )
    assert classify(text).action is Action.SHUTDOWN


def test_veto_wins_when_it_lies_deep_in_a_chain_of_retriable_errors() -> None:
    error = ConnectionError("socket")
    error.__cause__ = TimeoutError("slow")
    error.__cause__.__cause__ = NoCredentialsError()
    assert classify(error).rule == "credentials-class"


def test_outermost_known_error_decides_when_no_veto_is_there() -> None:
    error = ConnectionError("socket")
    error.__cause__ = KeyError("x")
    assert classify(error).rule == "network"


def test_wrapper_is_looked_through_when_its_cause_is_known() -> None:
    error_info = ErrorInfo(
        (
            Link("StreamingQueryException", "timeout", condition="STREAM_FAILED", sqlstate="XXKST"),
            Link("java.io.UncheckedIOException", "disk"),
            Link("io.delta.exceptions.ConcurrentAppendException"),
        )
    )
    assert classify(error_info).rule == "delta-conflict"


def test_unknown_error_is_retried_within_bounds_and_counts_for_the_breaker() -> None:
    decision = classify(ValueError("what is this"))
    assert (decision.category, decision.action, decision.scope) == (
        "UNCLASSIFIED",
        Action.RETRY,
        Scope.DEPENDENCY,
    )
    assert decision.counts_for_breaker
    assert decision.then is None


def test_an_error_of_our_own_code_concerns_the_record_when_nothing_else_is_known() -> None:
    decision = classify(KeyError("column"))
    assert (decision.action, decision.scope) == (Action.DLQ, Scope.RECORD)


def test_used_up_retries_are_a_stop_when_the_topic_stays_missing() -> None:
    exhausted = RetriesExhausted("x", attempts=4, decision=MISSING_TOPIC)
    decision = classify(exhausted)
    assert (decision.action, decision.scope) == (Action.STOP, Scope.PROCESS)


def rule(**given: object) -> FailureRule:
    return FailureRule.model_validate({"name": "mine", "action": "STOP", **given})


@pytest.mark.parametrize(
    "criterion",
    [
        {"class": r"SocketTimeout"},
        {"condition": r"MY_\w+"},
        {"sqlstate": "ZZ"},
        {"http": [503]},
        {"aws": ["SlowDown"]},
        {"kafka": ["_TRANSPORT"]},
        {"message": "(?i)GIVE UP"},
    ],
)
def test_configured_rule_decides_when_its_criterion_fits(criterion: dict[str, object]) -> None:
    error_info = ErrorInfo(
        (
            Link(
                "java.net.SocketTimeoutException",
                "please give up",
                condition="MY_CONDITION",
                sqlstate="ZZ001",
                http_status=503,
                aws_code="SlowDown",
                kafka_code="_TRANSPORT",
            ),
        )
    )
    assert classify(error_info).action is Action.RETRY
    decision = classifier_for([rule(**criterion)], plug_ins=()).classify(error_info)
    assert (decision.action, decision.rule, decision.category) == (Action.STOP, "mine", "CONFIGURED")


def test_configured_rule_needs_all_its_criteria() -> None:
    both = classifier_for([rule(http=[503], message="teapot")], plug_ins=())
    assert both.classify(ErrorInfo((Link("X", "busy", http_status=503),))).rule == "http-unavailable"


def test_configured_rule_brings_its_own_retries_and_backoff() -> None:
    configured = rule(
        action="RETRY",
        message="eventual",
        **{"max-retries": 9, "backoff": {"base": 5, "cap": 60}, "then": "STOP"},
    )
    decision = classifier_for([configured], plug_ins=()).classify(RuntimeError("eventual consistency"))
    assert decision.max_retries == 9
    assert decision.backoff == Backoff(base=5, cap=60)
    assert (decision.then, decision.counts_for_breaker) == (Action.STOP, True)


def test_broad_rule_cannot_lift_a_veto_but_a_rule_on_the_vetoed_error_can() -> None:
    error = ConnectionError("outer")
    error.__cause__ = ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject")
    broad = classifier_for([rule(action="RETRY", **{"class": "ConnectionError"})], plug_ins=())
    assert broad.classify(error).rule == "credentials-aws"
    exact = classifier_for([rule(action="RETRY", aws=["AccessDenied"])], plug_ins=())
    assert exact.classify(error).rule == "mine"


@pytest.mark.parametrize(
    "wrong",
    [{}, {"class": "("}, {"message": "x", "then": "RETRY"}, {"http": [503], "unknown": 1}, {"sqlstate": "x"}],
)
def test_configured_rule_is_refused_when_it_is_wrong(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        rule(**wrong)


PLUGGED = Rule("plugged", lambda error_info: "teapot" in error_info.message, stop("TEAPOT"))
WRONG = 7


def give_rules() -> list[Rule]:
    return [PLUGGED]


def points(*names: str) -> list[EntryPoint]:
    return [EntryPoint(name, f"{__name__}:{name}", "tidemark.classification_rules") for name in names]


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    module = type(sys)(__name__)
    module.__dict__.update(PLUGGED=PLUGGED, WRONG=WRONG, give_rules=give_rules)
    monkeypatch.setitem(sys.modules, __name__, module)


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("name", ["PLUGGED", "give_rules"])
def test_plug_in_decides_when_an_entry_point_brings_a_rule(name: str) -> None:
    classifier = classifier_for(plug_ins=installed_rules(lambda: points(name)))
    assert classifier.classify(RuntimeError("I am a teapot")).rule == "plugged"


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("name", ["WRONG", "missing"])
def test_start_is_refused_by_name_when_a_plug_in_is_broken(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        installed_rules(lambda: points(name))


def test_classifier_pickles_with_built_in_and_configured_rules() -> None:
    classifier = classifier_for([rule(http=[503])], plug_ins=())
    assert pickle.loads(pickle.dumps(classifier)) == classifier


def test_every_built_in_rule_says_what_its_action_reaches() -> None:
    assert len(BUILT_IN) > 60
    for built_in in BUILT_IN:
        decision = built_in.decision
        assert decision.counts_for_breaker <= (decision.scope is Scope.DEPENDENCY), built_in.name
        assert (decision.action is Action.DLQ) == (decision.scope is Scope.RECORD), built_in.name


def test_facts_and_error_are_judged_alike() -> None:
    error = ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")
    assert classify(error_info_of(error)) == classify(error)


@pytest.mark.parametrize(
    ("condition", "action"),
    [
        ("DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT", Action.STOP),
        ("DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS", Action.STOP),
        ("RESERVED_CDC_COLUMNS_ON_WRITE", Action.STOP),
        ("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", Action.STOP),
        ("DELTA_UNKNOWN_CONFIGURATION", Action.STOP),
        ("DELTA_A_CONDITION_OF_A_LATER_VERSION", Action.STOP),
        ("DELTA_FAILED_READ_FILE_FOOTER", Action.RETRY),
        ("DELTA_VERSIONS_NOT_CONTIGUOUS", Action.RETRY),
        ("DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", Action.RESTART_QUERY),
    ],
)
def test_what_delta_refuses_by_name_needs_a_person_when_no_other_rule_knows_it(
    condition: str, action: Action
) -> None:
    error = RuntimeError(f"org.apache.spark.sql.delta.DeltaIllegalStateException: [{condition}] failed")
    assert Classifier().classify(error).action is action


def test_an_outage_inside_an_unknown_condition_of_delta_stays_one() -> None:
    text = (
        "org.apache.spark.sql.delta.DeltaIllegalStateException: [DELTA_UNIVERSAL_FORMAT_CONVERSION_FAILED]\n"
        "\tat a.b(C.scala:1)\nCaused by: java.net.SocketTimeoutException: Read timed out\n"
    )
    assert Classifier().classify(text).action is Action.RETRY
