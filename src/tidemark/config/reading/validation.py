"""Runs the models over a document and says what they find in words a person can act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidemark.config.base import Misread, Section
from tidemark.config.reading.faults import KeyPath
from tidemark.config.reading.shape import Finding, keys_of, sections_in
from tidemark.config.redaction import is_secret_name

M = TypeVar("M", bound=Section)
MOST_ROUNDS = 8
PLACEHOLDERS = {
    "kafka-topic": "unreadable",
    "bootstrap-servers": "unreadable:1",
    "name": "unreadable",
    "expr": "true",
}
"""What stands in for a required key that is wrong, so that the rest of its section is still checked."""


def validated(
    model: type[M], values: Mapping[str, Any], at: KeyPath = (), *, quiet: frozenset[KeyPath] = frozenset()
) -> tuple[M | None, list[Finding]]:
    """The model, and every finding. Where there are findings, the model is what remains without the
    faulty keys, so that further checks can run, or None if nothing usable remains.

    `quiet` are paths whose values are not shown.
    """
    remaining = deepcopy(dict(values))
    findings: dict[Finding, None] = {}
    pruned: list[KeyPath] = []
    for _ in range(MOST_ROUNDS):
        try:
            return model.model_validate(remaining), list(findings)
        except ValidationError as e:
            errors = e.errors(include_url=False)
        located = [(_document_path(e["loc"], remaining, missing=e["type"] == "missing"), e) for e in errors]
        faulty = [*pruned, *(loc for loc, _ in located)]
        for loc, error in located:
            inside = any(len(p) > len(loc) and p[: len(loc)] == loc for p in faulty)
            gone = any(p[: len(loc)] == loc for p in pruned)
            if (error["type"] == "too_short" and inside) or (error["type"] == "missing" and gone):
                continue  # a result of faults that are named already
            path = (*at, *loc)
            findings[(path, *_words(error, model, loc, shown=path not in quiet))] = None
        for loc, error in located:
            missing = error["type"] == "missing"
            if missing and loc[-1] in PLACEHOLDERS:
                _place(remaining, loc, PLACEHOLDERS[str(loc[-1])])
                continue
            pruned.append(loc)
            if not _prune(remaining, loc[:-1] if missing else loc):
                return None, list(findings)
    return None, list(findings)


def _document_path(loc: tuple[int | str, ...], values: Any, *, missing: bool) -> KeyPath:
    """The location of a pydantic error without the parts that name no key: union branches, `[key]`."""
    path: list[int | str] = []
    here = values
    for part in loc:
        named = isinstance(here, dict) and isinstance(part, str) and part in here
        counted = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if named or counted:
            here = here[part]
        else:
            if missing and part == loc[-1]:
                path.append(part)
            break
        path.append(part)
    return tuple(path)


def _prune(values: dict[str, Any], path: KeyPath) -> bool:
    """Take away what stands at `path`; False where that would leave nothing."""
    if not path:
        return False
    here: Any = values
    for part in path[:-1]:
        if isinstance(here, dict) and part not in here:
            return True
        here = here[part]
    if isinstance(here, dict):
        here.pop(path[-1], None)
    elif isinstance(here, list):
        # emptied, not removed: other errors of this round name later positions
        return _prune(values, path[:-1])
    return True


def _place(values: Any, path: KeyPath, value: str) -> None:
    for part in path[:-1]:
        values = values.setdefault(part, {}) if isinstance(values, dict) else values[part]
    values[path[-1]] = value


def _words(error: ErrorDetails, model: type[Section], loc: KeyPath, *, shown: bool) -> tuple[str, str]:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    key = str(loc[-1]) if loc else ""
    if kind == "missing":
        return "is missing", _add_it(model, loc)
    if kind == "value_error":
        cause = context.get("error", error["msg"])
        problem, _, hint = str(cause).partition("; ")
        if isinstance(cause, Misread) and shown and not is_secret_name(key):
            problem = f"{problem}: `{cause.part}`"
        return problem, hint
    if kind in ("literal_error", "enum"):
        problem, hint = _choice(str(context["expected"]), value)
    else:
        wording = WORDS.get(kind)
        problem, hint = wording(context, value) if wording else (error["msg"].lower(), "")
    visible = shown and isinstance(value, str | int | float) and not is_secret_name(key)
    return (f"is `{value}`, {problem}" if visible and str(value) else problem), hint


def _add_it(model: type[Section], loc: KeyPath) -> str:
    current: list[type[Section]] = [model]
    description = ""
    for part in loc:
        for section in current:
            if isinstance(part, str) and part in keys_of(section):
                field = keys_of(section)[part]
                current, description = sections_in(field.annotation), field.description or ""
                break
    return f"add it: {description}" if description else "add it"


def _choice(expected: str, value: object) -> tuple[str, str]:
    choices = [c.strip("' ") for c in expected.replace(" or ", ", ").split(", ")]
    near = get_close_matches(str(value).lower(), {c.lower(): c for c in choices}, n=1, cutoff=0.6)
    meant = next((c for c in choices if near and c.lower() == near[0]), None)
    one_of = f"must be one of {', '.join(choices)}" if len(choices) > 1 else f"must be {choices[0]}"
    return one_of, f"did you mean `{meant}`?" if meant else ""


def _bound(sign: str, key: str) -> Callable[[Mapping[str, Any], object], tuple[str, str]]:
    return lambda context, value: (f"must be {sign} {context[key]}", "")


def _text(context: Mapping[str, Any], value: object) -> tuple[str, str]:
    if isinstance(value, bool | int | float):
        return "must be text", "put it in quotes"
    return "must be text", "write one value"


WORDS: dict[str, Callable[[Mapping[str, Any], object], tuple[str, str]]] = {
    "string_type": _text,
    "string_too_short": lambda c, v: ("must not be empty", ""),
    "string_too_long": lambda c, v: (f"must have at most {c['max_length']} characters", ""),
    "string_pattern_mismatch": lambda c, v: ("must consist of dead letters, digits, `.`, `_` and `-`", ""),
    "int_type": lambda c, v: ("must be a whole number", ""),
    "int_parsing": lambda c, v: ("must be a whole number", "write the digits only"),
    "int_from_float": lambda c, v: ("must be a whole number", ""),
    "float_type": lambda c, v: ("must be a number", ""),
    "float_parsing": lambda c, v: ("must be a number", "write the number only, without a unit"),
    "finite_number": lambda c, v: ("must be a finite number", ""),
    "bool_type": lambda c, v: ("must be true or false", ""),
    "bool_parsing": lambda c, v: ("must be true or false", ""),
    "greater_than": _bound("above", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("below", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "too_short": lambda c, v: ("must not be empty", "name at least one"),
    "tuple_type": lambda c, v: ("must be a list", "write `[a, b]`, or one `- item` a line"),
    "model_type": lambda c, v: ("must be a section of keys", "write the keys below it, indented"),
    "model_attributes_type": lambda c, v: ("must be a section of keys", "write the keys below it, indented"),
    "dict_type": lambda c, v: ("must be a section of keys", "write `name: value` lines below it, indented"),
}
