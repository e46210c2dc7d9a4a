"""What is read from errors of every kind, without Spark."""

from __future__ import annotations

import pickle
from email.utils import formatdate

import confluent_kafka as kafka
import httpx
import pytest
from botocore.exceptions import ClientError
from sqlalchemy.exc import OperationalError

from tidemark.contract.errors import Fenced, RetriableError
from tidemark.contract.failures import ErrorInfo
from tidemark.resilience.error_info import error_info_of

STREAM_FAILED = """\
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2] terminated \
with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in \
foreach batch sink. Reason: boom SQLSTATE: 39000 SQLSTATE: XXKST
\tat org.apache.spark.sql.execution.streaming.StreamExecution.run(StreamExecution.scala:1)
Caused by: py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most \
recent call last):
  File "batch.py", line 1, in handler
    raise KeyError("x")
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "batch.py", line 2, in handler
    raise Fenced("another writer")
tidemark.contract.errors.Fenced: [TIDEMARK_FENCED] another writer

\tat py4j.Protocol.getReturnValue(Protocol.java:1)
\t... 3 more
"""
JOB_ABORTED = """\
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most \
recent failure: Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.1 executor 2): \
java.net.SocketTimeoutException: Read
\tat java.base/sun.nio.ch.Net.poll(Native Method)
Caused by: java.lang.IllegalStateException: inner
\tat a.b.c(D.java:1)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
"""


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def raise_over_another(cause: BaseException | None) -> None:
    try:
        raise KeyError("context")
    except KeyError:
        raise ValueError("outer") from cause


def test_conditions_and_tracebacks_are_read_when_a_foreach_batch_error_is_text() -> None:
    error_info = error_info_of(STREAM_FAILED)
    assert error_info.classes == (
        "org.apache.spark.sql.streaming.StreamingQueryException",
        "py4j.Py4JException",
        "tidemark.contract.errors.Fenced",
        "KeyError",
    )
    assert error_info.conditions == ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "TIDEMARK_FENCED")
    assert error_info.sqlstates == ("XXKST",)


def test_executor_error_is_read_when_only_the_message_of_the_driver_has_it() -> None:
    assert error_info_of(JOB_ABORTED).classes == (
        "org.apache.spark.SparkException",
        "java.net.SocketTimeoutException",
        "java.lang.IllegalStateException",
    )


def test_aws_answer_is_read_when_s3a_puts_it_into_a_message() -> None:
    error_info = error_info_of(
        "java.nio.file.AccessDeniedException: s3a://b/k: getFileStatus on s3a://b/k: software.amazon.awssdk"
        ".services.s3.model.S3Exception: Access Denied (Service: S3, Status Code: 403, Request ID: 7)"
        ":AccessDenied"
    )
    assert error_info.classes[:2] == (
        "java.nio.file.AccessDeniedException",
        "software.amazon.awssdk.services.s3.model.S3Exception",
    )
    assert (error_info.http_status, error_info.aws_code) == (403, "AccessDenied")


def test_cause_is_followed_before_context_when_both_are_there() -> None:
    with pytest.raises(ValueError, match="outer") as caught:
        raise_over_another(TimeoutError("cause"))
    assert error_info_of(caught.value).classes == ("ValueError", "TimeoutError")


def test_context_is_left_out_when_it_is_suppressed() -> None:
    with pytest.raises(ValueError, match="outer") as caught:
        raise_over_another(None)
    assert error_info_of(caught.value).classes == ("ValueError",)


def test_context_is_left_out_when_tidemark_itself_raised_the_error() -> None:
    error = RetriableError("this run itself committed")
    error.__context__ = TimeoutError("what was handled meanwhile")
    assert error_info_of(error).classes == ("tidemark.contract.errors.RetriableError",)
    error.__cause__ = TimeoutError("why")
    assert error_info_of(error).classes == ("tidemark.contract.errors.RetriableError", "TimeoutError")


def test_chain_is_read_once_when_it_goes_round_in_a_circle() -> None:
    first, second = ValueError("1"), TypeError("2")
    first.__cause__, second.__cause__ = second, first
    assert error_info_of(first).classes == ("ValueError", "TypeError")


def test_chain_is_cut_when_it_is_very_long() -> None:
    error: BaseException = ValueError("0")
    for number in range(1, 100):
        outer = ValueError(str(number))
        outer.__cause__ = error
        error = outer
    assert len(error_info_of(error).links) == 32


def test_members_are_read_when_an_exception_group_holds_them() -> None:
    group = ExceptionGroup("two", [ConnectionResetError("a"), ExceptionGroup("one", [KeyError("b")])])
    assert error_info_of(group).classes == ("ExceptionGroup", "ConnectionResetError", "KeyError")


def test_kafka_code_is_read_when_an_exception_or_a_delivery_report_carries_it() -> None:
    error = kafka.KafkaError(kafka.KafkaError._TRANSPORT, "broker down")
    assert error_info_of(error).kafka_code == "_TRANSPORT"
    assert error_info_of(kafka.KafkaException(error)).kafka_code == "_TRANSPORT"


def test_aws_code_and_wait_are_read_when_botocore_raises() -> None:
    answer = {
        "Error": {"Code": "SlowDown", "Message": "Please reduce your request rate"},
        "ResponseMetadata": {"HTTPStatusCode": 503, "HTTPHeaders": {"retry-after": "4"}},
    }
    error_info = error_info_of(ClientError(answer, "PutObject"))
    assert (error_info.aws_code, error_info.http_status, error_info.retry_after) == ("SlowDown", 503, 4.0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": formatdate(120, usegmt=True), "Date": formatdate(90, usegmt=True)}, 30.0),
        ({"Retry-After": formatdate(60, usegmt=True), "Date": formatdate(90, usegmt=True)}, 0.0),
        ({"Retry-After": formatdate(120, usegmt=True)}, None),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_wait_is_read_when_an_http_answer_asks_for_it(headers: dict[str, str], seconds: float | None) -> None:
    response = httpx.Response(503, headers=headers, request=httpx.Request("GET", "http://registry.test"))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    assert error_info_of(caught.value).retry_after == seconds


def test_driver_error_is_read_when_sqlalchemy_wraps_it() -> None:
    error = OperationalError("SELECT 1", {}, ConnectionRefusedError("no"))
    assert error_info_of(error).classes[-1] == "ConnectionRefusedError"


def test_wait_is_read_when_a_users_error_asks_for_it() -> None:
    assert error_info_of(RetriableError("busy", retry_after=9)).retry_after == 9.0


def test_secrets_are_masked_when_a_message_holds_them() -> None:
    error = RuntimeError("jdbc:postgresql://u:hunter2@host/db?password=hunter3 refused")
    assert "hunter" not in error_info_of(error).message
    assert "hunter" not in error_info_of(RetriableError("s3a://key:hunter2@b/k")).message


def test_facts_pickle_and_hold_no_exception() -> None:
    error_info = error_info_of(
        raised(Fenced("x"), ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject"))
    )
    assert pickle.loads(pickle.dumps(error_info)) == error_info
    assert error_info.exception_class == "tidemark.contract.errors.Fenced"
    assert error_info.cause_class == "botocore.exceptions.ClientError"


def test_facts_are_given_when_the_error_itself_cannot_speak() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("the JVM is gone")

    assert error_info_of(Mute()).links[0].simple_name == "Mute"


def test_nothing_is_known_when_there_is_no_text() -> None:
    error_info = error_info_of("")
    assert (error_info.classes, error_info.message, error_info.cause_class) == ((), "", None)
    assert ErrorInfo().summary == ""
