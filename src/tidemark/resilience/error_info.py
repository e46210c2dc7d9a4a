"""`error_info_of`: error info, whichever library, JVM or Spark Connect server the error comes from.

Call it inside the `except` block: the text of a JVM exception is read over a socket. Error info
is a value; the exception is never kept. pyspark, Delta, botocore and confluent-kafka are recognised
by the attributes of their exceptions, so none of them is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tidemark.config.redaction import masked_text
from tidemark.contract.errors import TidemarkError
from tidemark.contract.failures import ErrorInfo, Link
from tidemark.resilience.replies import is_kafka_error, kafka_link, with_reply
from tidemark.resilience.trace_text import (
    DEPTH,
    MESSAGE_LIMIT,
    described,
    links_in,
    links_in_message,
    same_failure,
)

_NO_ANCESTOR = {"object", "Exception", "BaseException"}


def error_info_of(error: object) -> ErrorInfo:
    """The error info of an exception, of a `KafkaError` from a delivery report, or of a trace in a string.

    Follows `__cause__`, else `__context__` unless it is suppressed, 32 deep at most and each
    exception once; enters exception groups and the errors that `KafkaException` and SQLAlchemy wrap.
    Of Tidemark's own errors only `__cause__` is read.
    """
    if isinstance(error, str):
        return error_info_of_text(error)
    return ErrorInfo(tuple(dict.fromkeys(_links(error, set(), 0))))


def error_info_of_text(text: str) -> ErrorInfo:
    """The error info of an error that arrived as text, e.g. `QueryTerminatedEvent.exception`."""
    links = links_in(text)
    return ErrorInfo(links or (described("", text), *links_in_message(text)))


def class_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _links(error: object, seen: set[int], depth: int) -> Iterator[Link]:
    if error is None or depth >= DEPTH or id(error) in seen:
        return
    seen.add(id(error))
    if is_kafka_error(error):
        yield kafka_link(error)
        return
    yield from _own_links(error)
    for inner in _wrapped(error):
        yield from _links(inner, seen, depth + 1)


def _wrapped(error: object) -> Iterator[object]:
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions
    if isinstance(error, BaseException):
        yield from (arg for arg in error.args if is_kafka_error(arg))
        yield getattr(error, "orig", None)
        reason = getattr(error, "reason", None)
        yield reason if isinstance(reason, BaseException) else None
        if error.__cause__ is not None:
            yield error.__cause__
        elif not error.__suppress_context__ and not isinstance(error, TidemarkError):
            yield error.__context__


def _own_links(error: object) -> tuple[Link, ...]:
    kind = type(error)
    kin = tuple(class_name(base) for base in kind.__mro__[1:] if base.__name__ not in _NO_ANCESTOR)
    name = class_name(kind)
    if isinstance(error, TidemarkError):
        text = masked_text(error.message)[:MESSAGE_LIMIT]
        return (with_reply(Link(name, text, kin, condition=error.condition), error),)
    if hasattr(error, "_desc") and hasattr(error, "_stackTrace"):
        return _captured(name, kin, error)
    if hasattr(error, "java_exception"):
        return _py4j(name, kin, error)
    if hasattr(error, "getGrpcStatusCode"):
        return _connect(name, kin, error)
    message = _answer(lambda: str(error)) or ""
    link = replace(described(name, message), kin=kin)
    if hasattr(error, "getCondition"):
        condition, state = _answer(error.getCondition), _answer(getattr(error, "getSqlState", lambda: None))
        link = replace(link, condition=condition or link.condition, sqlstate=state or link.sqlstate)
    link = with_reply(replace(link, grpc_code=_grpc_code(error)), error)
    return (link, *(links_in(message) or links_in_message(message)))


def _captured(name: str, kin: tuple[str, ...], error: Any) -> tuple[Link, ...]:
    """PySpark classic. `_desc` is the message alone and `_stackTrace` the JVM's, causes included."""
    link = replace(described(name, str(error._desc or "")), kin=kin)
    link = replace(
        link,
        condition=link.condition or _answer(error.getCondition),
        sqlstate=link.sqlstate or _answer(error.getSqlState),
    )
    return _joined(link, links_in(str(error._stackTrace or "")))


def _py4j(name: str, kin: tuple[str, ...], error: Any) -> tuple[Link, ...]:
    """A JVM exception that PySpark does not convert: its text is read once, over the socket."""
    text = _answer(lambda: str(error)) or ""
    return (Link(name, kin=kin), *(links_in(text) or (described("", text), *links_in_message(text))))


def _connect(name: str, kin: tuple[str, ...], error: Any) -> tuple[Link, ...]:
    """Spark Connect. The message may start with the JVM class in brackets; the trace may be missing."""
    message = str(getattr(error, "_message", None) or _answer(error.getMessage) or "")
    java_class = ""
    if message.startswith("(") and ") " in message:
        java_class, _, message = message[1:].partition(") ")
    link = replace(
        described(name, message),
        kin=kin,
        condition=_answer(error.getCondition),
        sqlstate=_answer(error.getSqlState),
        grpc_code=str(getattr(error.getGrpcStatusCode(), "name", "")) or None,
    )
    link = replace(link, condition=link.condition or described("", message).condition)
    trace = links_in(str(_answer(error.getStackTrace) or ""))
    if java_class and not any(t.name == java_class for t in trace):
        trace = (described(java_class, message), *trace)
    return (*_joined(link, trace), *links_in_message(message))


def _joined(link: Link, trace: tuple[Link, ...]) -> tuple[Link, ...]:
    one = same_failure(link, trace[0]) if trace else None
    return (one, *trace[1:]) if one else (link, *trace)


def _grpc_code(error: object) -> str | None:
    """The code of a `grpc.RpcError` that no Spark exception wraps."""
    code = getattr(error, "code", None)
    if not callable(code) or not hasattr(error, "details"):
        return None
    return getattr(_answer(code), "name", None)


def _answer(ask: Callable[[], Any]) -> Any:
    """The error's answer, or None: the JVM or the server that it reads from may be gone."""
    try:
        return ask()
    except Exception:
        return None
