"""A door before a Spark Connect server that refuses what serverless compute refuses.

As documented for Databricks: six settings can be set and read, and a read of any other raises
CONFIG_NOT_AVAILABLE even with a default; nothing is kept (cache, persist, checkpoints); streams have the
trigger availableNow. What the client's own code reads of settings has to be answered, or no program would
run. RDDs and the JVM are out of a client's reach as it is.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pyspark.sql.connect.proto as pb2
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

ALLOWED = frozenset(
    {
        "spark.sql.shuffle.partitions",
        "spark.sql.session.timeZone",
        "spark.sql.ansi.enabled",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.legacy.timeParserPolicy",
        "spark.databricks.execution.timeout",
    }
)
SERVICE = "spark.connect.SparkConnectService"
UNARY = ("AnalyzePlan", "Config", "ArtifactStatus", "Interrupt", "ReleaseExecute", "ReleaseSession")
UNARY += ("FetchErrorDetails", "CloneSession")
STREAMED = ("ExecutePlan", "ReattachExecute")
_SETTING = re.compile(r"[\"'](spark\.[\w.]+)[\"']")


@dataclass
class Refusals:
    """What was asked for and refused, by its condition and name."""

    refused: list[tuple[str, str]] = field(default_factory=list)

    def refuse(self, context: grpc.ServicerContext, condition: str, what: str) -> None:
        self.refused.append((condition, what))
        message = f"[{condition}] {what} is not available on serverless compute. SQLSTATE: 0A000"
        info = error_details_pb2.ErrorInfo(
            reason="org.apache.spark.sql.AnalysisException",
            domain="org.apache.spark",
            metadata={
                "classes": '["org.apache.spark.sql.AnalysisException"]',
                "errorClass": condition,
                "messageParameters": "{}",
            },
        )
        detail = any_pb2.Any()
        detail.Pack(info)
        status = status_pb2.Status(code=code_pb2.INTERNAL, message=message, details=[detail])
        context.abort_with_status(rpc_status.to_status(status))


@contextmanager
def strict_proxy(port: int, server: str, *, client_of: str) -> Iterator[Refusals]:
    """Listens on `port` of loopback and passes on to `server` (host:port) what it does not refuse.

    `client_of`: the Python whose pyspark's own reads of settings are answered.
    """
    refusals = Refusals()
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    channel = grpc.insecure_channel(server, options=options)
    door = grpc.server(futures.ThreadPoolExecutor(max_workers=64), options=options)
    door.add_generic_rpc_handlers((_Door(channel, _Rules(refusals, read_by_client(client_of))),))
    door.add_insecure_port(f"127.0.0.1:{port}")
    door.start()
    try:
        yield refusals
    finally:
        door.stop(grace=1).wait()
        channel.close()


def read_by_client(python: str) -> frozenset[str]:
    """Settings that the client's own code names."""
    (folder,) = Path(python).absolute().parents[1].glob("lib/python3*/site-packages/pyspark/sql")
    files = [*(folder / "connect").rglob("*.py"), folder / "pandas/conversion.py"]
    files += (folder.parent / "errors").rglob("*.py")
    return frozenset(name for file in files for name in _SETTING.findall(file.read_text(encoding="utf-8")))


class _Rules:
    def __init__(self, refusals: Refusals, of_client: frozenset[str]) -> None:
        self._refusals, self._of_client = refusals, of_client
        self._lock = threading.Lock()

    def check(self, method: str, body: bytes, context: grpc.ServicerContext) -> None:
        found = None
        if method == "Config":
            found = self._config(pb2.ConfigRequest.FromString(body))
        elif method == "AnalyzePlan":
            asked = pb2.AnalyzePlanRequest.FromString(body).WhichOneof("analyze")
            found = ("PERSIST", asked) if asked in ("persist", "unpersist") else None
        elif method == "ExecutePlan":
            found = self._command(pb2.ExecutePlanRequest.FromString(body).plan.command)
        if found is not None:
            with self._lock:
                self._refusals.refuse(context, *found)

    def _config(self, request: Any) -> tuple[str, str] | None:
        kind = request.operation.WhichOneof("op_type")
        operation = getattr(request.operation, kind)
        writes = kind in ("set", "unset")
        if kind == "get_all":
            return None
        names = list(operation.keys) if hasattr(operation, "keys") else [p.key for p in operation.pairs]
        for name in names:
            if name not in ALLOWED and (writes or name not in self._of_client):
                return "CONFIG_NOT_AVAILABLE", name
        return None

    def _command(self, command: Any) -> tuple[str, str] | None:
        kind = command.WhichOneof("command_type")
        if kind == "checkpoint_command":
            return "NOT_SUPPORTED_WITH_SERVERLESS", "checkpoint"
        if kind == "write_stream_operation_start":
            trigger = command.write_stream_operation_start.WhichOneof("trigger")
            if trigger != "available_now":
                return "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED", f"trigger {trigger}"
        if kind == "sql_command":
            text = command.sql_command.sql or command.sql_command.input.sql.query
            if re.match(r"\s*(CACHE|UNCACHE)\b", text, re.IGNORECASE):
                return "NOT_SUPPORTED_WITH_SERVERLESS", "CACHE TABLE"
            name = re.match(r"\s*SET\s+([\w.]+)", text, re.IGNORECASE)
            if name and name.group(1) not in ALLOWED:
                return "CONFIG_NOT_AVAILABLE", name.group(1)
        return None


class _Door(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Passes bytes on, so that messages of any client come through as they are."""

    def __init__(self, channel: grpc.Channel, rules: _Rules) -> None:
        self._rules = rules
        path = f"/{SERVICE}/".__add__
        self._unary = {m: channel.unary_unary(path(m)) for m in UNARY}
        self._streamed = {m: channel.unary_stream(path(m)) for m in STREAMED}
        self._artifacts = channel.stream_unary(path("AddArtifacts"))

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method = details.method.rpartition("/")[2]
        if method in self._unary:
            return grpc.unary_unary_rpc_method_handler(self._passed(method, self._unary[method]))
        if method in self._streamed:
            return grpc.unary_stream_rpc_method_handler(self._streamed_of(method, self._streamed[method]))
        if method == "AddArtifacts":
            return grpc.stream_unary_rpc_method_handler(self._passed(method, self._artifacts))
        return None

    def _passed(self, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            if isinstance(request, bytes):
                self._rules.check(method, request, context)
            try:
                return call(request, metadata=_metadata(context))
            except grpc.RpcError as error:
                _same_error(error, context)

        return handle

    def _streamed_of(self, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def handle(request: bytes, context: grpc.ServicerContext) -> Iterator[Any]:
            self._rules.check(method, request, context)
            try:
                yield from call(request, metadata=_metadata(context))
            except grpc.RpcError as error:
                _same_error(error, context)

        return handle


def _metadata(context: grpc.ServicerContext) -> list[tuple[str, Any]]:
    own = ("user-agent", "grpc-", ":")
    return [(m.key, m.value) for m in context.invocation_metadata() if not m.key.startswith(own)]


def _same_error(error: Any, context: grpc.ServicerContext) -> None:
    context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
    context.abort(error.code(), error.details())
