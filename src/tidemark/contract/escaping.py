"""Text from outside (payloads, headers, errors that quote them) as a terminal only shows it."""

from __future__ import annotations

import re

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_control_characters(text: str) -> str:
    r"""Line feeds and tabs stay; any other control character, what turns the direction of writing, and
    surrogates are spelt out, so that no record moves the cursor or hides what else is printed.

    >>> harmless("ok \x1b[2J")
    'ok \\x1b[2J'
    """
    return _ACTING.sub(lambda found: _spelt(ord(found[0])), text)


def _spelt(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
