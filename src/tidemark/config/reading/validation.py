"""Reads a document's sections into the models, and describes each faulty key in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, get_origin

from pydantic import Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from tidemark.config.base import Misread, Section
from tidemark.config.reading.faults import Finding, KeyPath, related
from tidemark.config.reading.shape import is_named_by_user, keys_of, meant_by, sections_in
from tidemark.config.redaction import is_secret_name

M = TypeVar("M", bound=Section)


class SectionReader:
    """Reads every section that is usable without its faulty keys, so that one fault hides no other.

    `findings` has the faults in order, each once; `sections` the models by their paths. Values at the paths
    `hidden` are not shown.
    """

    def __init__(self, hidden: Collection[KeyPath] = ()) -> None:
        self.findings: dict[Finding, None] = {}
        self.sections: dict[KeyPath, Section] = {}
        self._hidden = hidden

    def read(self, model: type[M], values: Any, at: KeyPath = ()) -> M | None:
        """The section at `at`, or None where nothing usable remains of it."""
        if not isinstance(values, dict):
            problem = self._with_value(at, values, "must be a section of keys")
            self.findings[at, problem, "write the keys below it, indented"] = None
            return None
        keys, given, reported = keys_of(model), dict(values), set()
        for key, value in values.items():
            before = len(self.findings)
            if key not in keys:
                self.findings[(*at, key), "unknown key", meant_by(key, keys, at)] = None
                del given[key]
            elif inner := sections_in(keys[key].annotation):
                given[key] = self._inner(inner[0], keys[key].annotation, value, (*at, key))
                if given[key] is None:
                    del given[key]
            if len(self.findings) > before:
                reported.add(key)
        # The faults of single keys first; then, without those keys, what contradicts.
        for each in (model, _without_required_texts(model)):
            try:
                section = each.model_validate(given)
            except ValidationError as e:
                errors = e.errors(include_url=False)
                reported |= {error["loc"][0] for error in errors if len(error["loc"]) > 1}
                for error in errors:
                    # A key that is gone or empty because of its own faults has been reported.
                    if not (error["type"] in ("missing", "too_short") and error["loc"][0] in reported):
                        self._describe(model, error, given, at)
                faulty = {error["loc"][0] for error in errors if error["loc"]}
                reported |= faulty
                given = {key: value for key, value in given.items() if key not in faulty}
            else:
                self.sections[at] = section
                return section
        return None

    def _inner(self, model: type[Section], annotation: Any, value: Any, at: KeyPath) -> Any:
        """The value with its sections read; unchanged where it is not what the annotation asks for."""
        if is_named_by_user(annotation):
            if not isinstance(value, dict):
                return value
            read = {name: self.read(model, section, (*at, name)) for name, section in value.items()}
            return {name: section for name, section in read.items() if section is not None}
        if get_origin(annotation) is tuple:
            if not isinstance(value, list):
                return value
            items = [self.read(model, section, (*at, i)) for i, section in enumerate(value)]
            return [section for section in items if section is not None]
        return self.read(model, value, at)

    def _describe(
        self, model: type[Section], error: ErrorDetails, given: Mapping[str, Any], at: KeyPath
    ) -> None:
        kind, context, value = error["type"], error.get("ctx", {}), error["input"]
        missing = kind == "missing"
        path = (*at, *(error["loc"] if missing else _written(error["loc"], given)))
        if missing:
            description = keys_of(model)[str(path[-1])].description
            problem, hint = "is missing", f"add it: {description}" if description else "add it"
        elif kind == "value_error":
            cause = context.get("error", error["msg"])
            problem, _, hint = str(cause).partition("; ")
            if isinstance(cause, Misread) and self._may_show(path):
                problem = f"{problem}: `{cause.part}`"
        else:
            if kind in ("literal_error", "enum"):
                problem, hint = _choice(str(context["expected"]), value)
            elif kind in WORDS:
                problem, hint = WORDS[kind](context, value)
            else:
                problem, hint = error["msg"].lower(), ""
            problem = self._with_value(path, value, problem)
        self.findings[path, problem, hint] = None

    def _with_value(self, path: KeyPath, value: Any, problem: str) -> str:
        visible = self._may_show(path) and isinstance(value, str | int | float) and str(value)
        return f"is `{value}`, {problem}" if visible else problem

    def _may_show(self, path: KeyPath) -> bool:
        hidden = any(related(path, each) for each in self._hidden)
        return not hidden and not is_secret_name(str(path[-1]) if path else "")


@cache
def _without_required_texts(model: type[M]) -> type[M]:
    """The model with its required texts optional: a section that lacks one is still checked for the rest."""
    texts = {
        name: (str, Field("", validate_default=False))
        for name, field in model.model_fields.items()
        if field.is_required() and field.annotation is str
    }
    made: type[M] = create_model(model.__name__, __base__=model, **texts)  # type: ignore[call-overload]
    return made


def _written(loc: tuple[int | str, ...], given: Any) -> KeyPath:
    """The location of a pydantic error without the parts that name no key: union branches, `[key]`."""
    path: list[int | str] = []
    for part in loc:
        is_key = isinstance(given, dict) and part in given
        if not is_key and not (isinstance(given, list) and isinstance(part, int) and part < len(given)):
            break
        given = given[part]
        path.append(part)
    return tuple(path)


def _choice(expected: str, value: object) -> tuple[str, str]:
    choices = [c.strip("' ") for c in expected.replace(" or ", ", ").split(", ")]
    near = get_close_matches(str(value).lower(), {c.lower(): c for c in choices}, n=1, cutoff=0.6)
    meant = next((c for c in choices if near and c.lower() == near[0]), None)
    one_of = f"must be one of {', '.join(choices)}" if len(choices) > 1 else f"must be {choices[0]}"
    return one_of, f"did you mean `{meant}`?" if meant else ""


Wording = Callable[[Mapping[str, Any], object], tuple[str, str]]


def _fixed(problem: str, hint: str = "") -> Wording:
    return lambda context, value: (problem.format(**context), hint)


def _text(context: Mapping[str, Any], value: object) -> tuple[str, str]:
    if isinstance(value, bool | int | float):
        return "must be text", "put it in quotes"
    return "must be text", "write one value"


WORDS: dict[str, Wording] = {
    "string_type": _text,
    "string_too_short": _fixed("must not be empty"),
    "string_too_long": _fixed("must have at most {max_length} characters"),
    "string_pattern_mismatch": _fixed("must consist of letters, digits, `.`, `_` and `-`"),
    "int_type": _fixed("must be a whole number"),
    "int_parsing": _fixed("must be a whole number", "write the digits only"),
    "int_from_float": _fixed("must be a whole number"),
    "float_type": _fixed("must be a number"),
    "float_parsing": _fixed("must be a number", "write the number only, without a unit"),
    "finite_number": _fixed("must be a finite number"),
    "bool_type": _fixed("must be true or false"),
    "bool_parsing": _fixed("must be true or false"),
    "greater_than": _fixed("must be above {gt}"),
    "greater_than_equal": _fixed("must be at least {ge}"),
    "less_than": _fixed("must be below {lt}"),
    "less_than_equal": _fixed("must be at most {le}"),
    "too_short": _fixed("must not be empty", "name at least one"),
    "tuple_type": _fixed("must be a list", "write `[a, b]`, or one `- item` a line"),
    "dict_type": _fixed("must be a section of keys", "write `name: value` lines below it, indented"),
}
