"""The correlation id of a record, from its headers."""

from __future__ import annotations

from collections.abc import Sequence

CORRELATION_HEADERS = ("traceparent", "correlation_id", "X-Correlation-Id")
_LONGEST = 200


def correlation_id_of(headers: Sequence[tuple[str, bytes | None]], otherwise: str) -> str:
    """`traceparent`, else `correlation_id` (or `X-Correlation-Id`), else `otherwise`. The last of repeated
    headers counts.
    """
    for name in CORRELATION_HEADERS:
        value = next((v for n, v in reversed(headers) if n == name), None)
        if value:
            return bytes(value).decode("utf-8", errors="replace")[:_LONGEST]
    return otherwise
