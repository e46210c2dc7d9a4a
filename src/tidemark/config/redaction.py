"""What must not be shown: secrets in values that go to people, logs or errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

MASK = "********"

_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|jaas|authorization|credential|api[-_.]?key|access[-_.]?key"
    r"|private[-_.]?key|keystore\.key|connection[-_.]?string|^pwd$|\bcookie\b",
    re.IGNORECASE,
)
_NOT_SECRET = {"service-credential", "secret-fields"}
"""Names of things that are no secret themselves."""
_SECRET_TEXT = (
    (re.compile(r"(?<=://)([^\s/:@]*):([^\s/@]+)(?=@)"), rf"\1:{MASK}"),
    (
        re.compile(r"(?i)\b(password|passwd|pwd|secret|token)(\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s;,&\"']+)"),
        rf"\1\2{MASK}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}"), rf"\1{MASK}"),
)


def is_secret_name(name: str, further: Collection[str] = ()) -> bool:
    """Whether a key of that name holds something that must not be shown."""
    if name.lower() in {f.lower() for f in further}:
        return True
    return name not in _NOT_SECRET and bool(_SECRET_NAME.search(name))


def masked_text(text: str) -> str:
    """The text with the secrets inside it masked: passwords in URLs and JAAS entries, bearer tokens."""
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def redacted(mapping: Mapping[str, Any], further: Collection[str] = ()) -> dict[str, Any]:
    """A copy in which the values of secret names, and secrets inside texts, are masked."""
    return {
        k: _masked_leaves(v) if is_secret_name(str(k), further) else _redacted_value(v, further)
        for k, v in mapping.items()
    }


def _redacted_value(value: object, further: Collection[str]) -> object:
    if isinstance(value, dict):
        return redacted(value, further)
    if isinstance(value, list | tuple):
        return [_redacted_value(item, further) for item in value]
    return masked_text(value) if isinstance(value, str) else value


def _masked_leaves(value: object) -> object:
    if isinstance(value, dict):
        return {k: _masked_leaves(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_masked_leaves(item) for item in value]
    return value if value in (None, "") or isinstance(value, bool) else MASK
