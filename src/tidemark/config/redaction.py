"""Masks secrets in values for people, logs and errors.

An ambiguous text is masked: of two possible readings the one that hides more counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

MASK = "********"

_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|jaas|authorization|credential|api[-_.]?key|access[-_.]?key"
    r"|private[-_.]?key|account[-_.]?key|keystore\.key|connection[-_.]?string|(?<![a-z])pwd|\bcookie\b",
    re.IGNORECASE,
)
_NOT_SECRET = {"service-credential", "secret-fields"}
"""Names that match, but hold no secret."""
_SECRET_TEXT = (
    # A password may contain unencoded `/`, `:` and `@`: mask up to the last `@` of the word.
    (re.compile(r"(?<=://)([^\s/:\"']{0,1000}):(?:[^\s\"'<>]{0,1000}|\S{0,1000})(?=@)"), rf"\1:{MASK}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}"), rf"\1{MASK}"),
    (re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?:(?!-----END)[\s\S])*"), rf"\1{MASK}"),
)
_NAMED = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]+)(?:\\*["'])?\]?[ \t]*[=:>]{1,2}\s*(?=\S)"""
    r"""|\(\s*["'](?P<first>[\w.-]+)["']\s*,\s*(?=\S)"""
    r"""|(?<!\S)--(?P<option>[\w.-]+)[ =]+(?=\S)"""
)
"""A name and the separator before its value: `name=`, `"name":`, `['name'] =`, `('name',`, `--name`."""
_END = re.compile(
    r"""\s|["'<>;,&)\]}]+(?:\s|$)|["'<>;,&)\]}]\s*(?:["'<>;,&)\]}]|\\*["']?[\w.-]+\\*["']?[ \t]*[=:])"""
)
"""The end of a value without quotes. A single delimiter within it does not end it."""
_SCHEME = re.compile(r"(?i)(?:bearer|basic|digest|negotiate)\s+")
_PLAIN = re.compile(r"(?:null|None|true|True|false|False)(?=[\s,;&)\]}\"']|$)")
_QUOTED = re.compile(r"""[bBrRuU]{0,2}(\\*)(["'])""")
_QUOTES = {quote: re.compile(rf"(?<!\\)(\\*){quote}") for quote in ('"', "'")}


def is_secret_name(name: str, further: Collection[str] = ()) -> bool:
    """Whether the value of a key of that name must not be shown."""
    if name.lower() in {f.lower() for f in further}:
        return True
    return name not in _NOT_SECRET and bool(_SECRET_NAME.search(name))


def masked_text(text: str) -> str:
    """The text with its secrets masked: passwords in URLs, bearer tokens, private keys in PEM, and values of secret
    names in the syntax of properties, JAAS entries, options, JSON and Python.
    """
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    shown: list[str] = []
    at = 0
    while (found := _NAMED.search(text, at)) is not None:
        # The value of another name may contain a secret name: `sasl.jaas.config=… password=…`.
        start = end = found.end()
        if is_secret_name(found["name"] or found["first"] or found["option"]):
            start, end = _secret(text, start)
        shown += [text[at:start], MASK if end > start else ""]
        at = end
    return "".join([*shown, text[at:]])


def _secret(text: str, start: int) -> tuple[int, int]:
    """The begin and end of the secret value at `start`, without its quotes."""
    if scheme := _SCHEME.match(text, start):
        start = scheme.end()
    if _PLAIN.match(text, start):
        return start, start
    if quoted := _QUOTED.match(text, start):
        return quoted.end(), _closing_quote(text, quoted.end(), quoted)
    at = start
    while at < len(text) and not _END.match(text, at):
        at = _closing_bracket(text, at) if text[at] in "{[(" else at + 1
    return start, at


def _closing_quote(text: str, at: int, opening: re.Match[str]) -> int:
    """The end of a text that begins with `opening`; the end of `text` if nothing closes it.

    Inside a quoted text the quotes have a backslash before them, and backslashes are doubled.
    """
    escapes = len(opening[1])
    for found in _QUOTES[opening[2]].finditer(text, at):
        before = len(found[1]) - escapes
        if before >= 0 and before % (2 * (escapes + 1)) == 0:
            return found.end() - escapes - 1
    return len(text)


def _closing_bracket(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        if quoted := _QUOTED.match(text, at):
            at = _closing_quote(text, quoted.end(), quoted) + len(quoted[1])
        depth += (text[at : at + 1] in ("{", "[", "(")) - (text[at : at + 1] in ("}", "]", ")"))
        at += 1
        if depth == 0:
            break
    return at


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
