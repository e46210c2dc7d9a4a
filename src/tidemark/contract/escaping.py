"""Escapes control characters in text from outside: payloads, headers, errors that quote them."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_control_characters(text: str) -> str:
    r"""The text with control characters, changes of the writing direction, and surrogates as escape sequences.

    Line feeds and tabs stay. So no record moves the cursor or hides other output.

    >>> escape_control_characters("ok \x1b[2J")
    'ok \\x1b[2J'
    """
    return _CONTROL.sub(lambda found: _escaped(ord(found[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
