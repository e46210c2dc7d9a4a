"""Payloads as text, with the values of fields marked `secret` masked."""

from __future__ import annotations

import json
from typing import Any

from tidemark.config.redaction import MASK
from tidemark.config.stream import Stream

MOST_SHOWN_BYTES = 16 * 1024


def text_of(value: bytes | None) -> tuple[str, bool]:
    """Bytes as text, and whether the text encodes to the same bytes, so that it can be edited and sent back."""
    if value is None:
        return "", False
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return " ".join(f"{b:02x}" for b in value[:MOST_SHOWN_BYTES]), False
    exact = not any(c < " " and c not in "\t\n" for c in text) and len(value) <= MOST_SHOWN_BYTES
    return text[:MOST_SHOWN_BYTES], exact


def secret_names(stream: Stream) -> frozenset[str]:
    """Names of the fields marked `secret`, in lower case, with and without their path."""
    paths = [path for path, options in stream.fields.items() if options.secret]
    return frozenset(name.casefold() for path in paths for name in (path, path.rpartition(".")[2]))


def payload_text(value: bytes | None, secret: frozenset[str]) -> tuple[str, bool]:
    """As `text_of`, with the members of these names masked at any depth.

    A payload that is not JSON is not shown then, because the place of the secret in it is unknown.
    """
    if not secret or value is None:
        return text_of(value)
    try:
        shown = json.dumps(_without(json.loads(value), secret), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return f"({len(value)} bytes that hold a secret field and are not JSON)", False
    return shown[:MOST_SHOWN_BYTES], False


def _without(value: Any, secret: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {k: MASK if k.casefold() in secret else _without(v, secret) for k, v in value.items()}
    return [_without(item, secret) for item in value] if isinstance(value, list) else value
