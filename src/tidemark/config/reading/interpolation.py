"""`${NAME}` and `${NAME:default}` in values, filled in from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class Unset(Exception):
    """A placeholder that cannot be filled: `problem` and `hint` for the fault."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """The text with its placeholders filled in. A default may contain placeholders; `$${` stands for
    `${`. The value of a variable is not interpolated. Raises Unset.
    """
    out: list[str] = []
    position = 0
    while (start := text.find("${", position)) >= 0:
        if start > position and text[start - 1] == "$":
            out.append(text[position : start - 1] + "${")
            position = start + 2
            continue
        end = _closing(text, start)
        out.append(text[position:start] + _value(text[start + 2 : end], environ))
        position = end + 1
    return "".join(out) + text[position:]


def _closing(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        if text.startswith("${", i):
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return i
    raise Unset("a `${` is not closed", "write `${NAME}` or `${NAME:default}`; `$${` stands for `${` itself")


def _value(inside: str, environ: Mapping[str, str]) -> str:
    name, colon, default = inside.partition(":")
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise Unset(
            f"`${{{name}}}` does not name an environment variable", "write `${NAME}` or `${NAME:default}`"
        )
    if name in environ:
        return environ[name]
    if colon:
        return interpolate(default, environ)
    near = get_close_matches(name, environ, n=1, cutoff=0.8)
    meant = f"{near[0]} is set, did you mean that? Otherwise " if near else ""
    # The default is not spelt out: behind a name like KAFKA_PASSWORD it would be masked as a secret.
    raise Unset(
        f"the environment variable {name} is not set",
        f"{meant}set it, or write a default behind the name and a colon",
    )
