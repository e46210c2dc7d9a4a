"""What is read from the exceptions of Spark Connect's client, which have no JVM behind them."""

from __future__ import annotations

import grpc
from pyspark.errors.exceptions.connect import (
    AnalysisException,
    SparkConnectGrpcException,
    SparkException,
    UnknownException,
)

from tidemark.contract.failures import Action
from tidemark.resilience.classification import Classifier
from tidemark.resilience.error_info import error_info_of


def test_class_is_read_from_the_message_when_the_server_sends_no_trace() -> None:
    error = UnknownException(
        "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] files were added SQLSTATE: 2D521",
        reason="io.delta.exceptions.ConcurrentAppendException",
    )
    error_info = error_info_of(error)
    assert "io.delta.exceptions.ConcurrentAppendException" in error_info.classes
    assert error_info.conditions == ("DELTA_CONCURRENT_APPEND.WITHOUT_HINT",)
    assert error_info.sqlstates == ("2D521",)
    assert Classifier().classify(error).rule == "delta-conflict"


def test_causes_are_read_when_the_server_sends_a_trace() -> None:
    error = SparkException(
        "Job aborted",
        server_stacktrace="org.apache.spark.SparkException\n\tat a.b(C.scala:1)\n"
        "Caused by: java.net.SocketTimeoutException: Read timed out\n\tat d.e(F.java:2)",
    )
    assert error_info_of(error).classes == (
        "org.apache.spark.SparkException",
        "java.net.SocketTimeoutException",
    )
    assert Classifier().classify(error).rule == "network"


def test_condition_and_state_are_read_when_the_server_names_them() -> None:
    error = AnalysisException(
        "[TABLE_OR_VIEW_NOT_FOUND] no orders",
        errorClass="TABLE_OR_VIEW_NOT_FOUND",
        messageParameters={},
        sql_state="42P01",
    )
    error_info = error_info_of(error)
    assert (error_info.conditions, error_info.sqlstates) == (("TABLE_OR_VIEW_NOT_FOUND",), ("42P01",))
    assert Classifier().classify(error).rule == "missing-table"


def test_own_error_is_known_when_a_foreach_batch_handler_raised_it_on_the_server() -> None:
    error = SparkException(
        "[STREAM_FAILED] Query terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error "
        "occurred. Reason: tidemark.contract.errors.Fenced: [TIDEMARK_FENCED] another writer SQLSTATE: 39000"
    )
    decision = Classifier().classify(error)
    assert (decision.rule, decision.action) == ("own-fenced", Action.STOP)


def test_server_that_is_unavailable_is_waited_for() -> None:
    error = SparkConnectGrpcException("failed to connect", grpc_status_code=grpc.StatusCode.UNAVAILABLE)
    assert error_info_of(error).links[0].grpc_code == "UNAVAILABLE"
    assert Classifier().classify(error).rule == "grpc-unavailable"
