"""The other side's reply: HTTP status, AWS code, Kafka error code, `Retry-After`.

Read from the attributes of the client libraries' exceptions, so that none of them has to be installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any

from tidemark.config.redaction import masked_text
from tidemark.contract.failures import Link
from tidemark.resilience.trace_text import MESSAGE_LIMIT


def with_reply(link: Link, error: object) -> Link:
    """The link with the reply that `error` carries; unchanged where it carries none."""
    link = _with_status(link, error, getattr(error, "response", None))
    code = getattr(error, "error_code", None)
    if isinstance(code, str) and link.aws_code is None:
        link = replace(link, aws_code=code)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if isinstance(state, str):
        link = replace(link, sqlstate=state)
    wait = getattr(error, "retry_after", None)
    if wait is None:
        wait = getattr(error, "retry_after_secs", None)
    if isinstance(wait, int | float) and not isinstance(wait, bool):
        link = replace(link, retry_after=max(0.0, float(wait)))
    return link


def kafka_link(error: Any) -> Link:
    """A `confluent_kafka.KafkaError`, which is not an exception: it comes inside one or to a callback."""
    kind = type(error)
    return Link(
        f"{kind.__module__}.{kind.__qualname__}",
        masked_text(str(error.str()))[:MESSAGE_LIMIT],
        kafka_code=str(error.name()),
        fatal=bool(error.fatal()),
    )


def is_kafka_error(value: object) -> bool:
    """By its class, since a proxy of a JVM object claims to have any method."""
    return all(hasattr(type(value), name) for name in ("code", "name", "str", "fatal", "retriable"))


def _with_status(link: Link, error: object, response: Any) -> Link:
    if isinstance(response, Mapping):
        return _with_aws(link, response)
    source = response if response is not None else error
    status = getattr(source, "status_code", None)
    if status is None:
        status = getattr(source, "status", None) or getattr(source, "code", None)
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        return link
    wait = retry_after_of(getattr(source, "headers", None))
    return replace(link, http_status=status, retry_after=wait if wait is not None else link.retry_after)


def _with_aws(link: Link, response: Mapping[str, Any]) -> Link:
    code = (response.get("Error") or {}).get("Code")
    meta = response.get("ResponseMetadata") or {}
    status = meta.get("HTTPStatusCode")
    return replace(
        link,
        aws_code=str(code) if code else None,
        http_status=status if isinstance(status, int) else None,
        retry_after=retry_after_of(meta.get("HTTPHeaders")),
    )


def retry_after_of(headers: Any) -> float | None:
    """Seconds of a `Retry-After` header: a number, or a date counted from the reply's own `Date`.

    A date without `Date` is ignored, because this clock and the server's need not agree.
    """
    if headers is None or not hasattr(headers, "get"):
        return None
    millis = headers.get("x-amz-retry-after")
    value = headers.get("Retry-After") or headers.get("retry-after")
    try:
        if value is None:
            return max(0.0, float(millis) / 1000) if millis is not None else None
        if str(value).strip().replace(".", "", 1).isdigit():
            return float(value)
        date = headers.get("Date") or headers.get("date")
        if date is None:
            return None
        wait = parsedate_to_datetime(str(value)) - parsedate_to_datetime(str(date))
        return max(0.0, wait.total_seconds())
    except (TypeError, ValueError):
        return None
