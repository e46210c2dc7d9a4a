"""`Rule`, and the tiers in which a classifier asks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tidemark.contract.failures import Decision, ErrorInfo
from tidemark.resilience.match import Match


class Tier(IntEnum):
    """Asked in this order. Within a tier the outermost exception that any rule knows decides."""

    OWN = 0
    """Tidemark's own errors: they were raised with full knowledge."""
    VETO = 1
    """Wins anywhere in the chain: credentials, something missing, something malformed."""
    SPECIFIC = 2
    """A class, condition or code that means one thing."""
    STATE = 3
    """The class of an SQLSTATE."""
    GENERAL = 4
    """Families with little meaning: an I/O error, a service error."""
    WORDS_VETO = 5
    """Words of the message, where nothing else is known: no retry helps."""
    WORDS = 6
    """Words of the message, where nothing else is known: a retry may help."""
    LAST = 7
    """Internal errors of Spark and Delta whose cause no rule knows."""


@dataclass(frozen=True)
class Rule:
    """`predicate` gets the error info of one exception of the chain at a time."""

    name: str
    predicate: Callable[[ErrorInfo], bool]
    decision: Decision
    tier: Tier = Tier.SPECIFIC


_PATTERNS = ("class_pattern", "condition_pattern", "kafka_pattern", "message")


def rules(name: str, decision: Decision, *, tier: Tier = Tier.SPECIFIC, **criteria: str) -> tuple[Rule, ...]:
    """A rule for each criterion of `Match`, of which one is enough.

    A criterion is a regular expression where `Match` takes one, else the words that it may be.
    """
    return tuple(
        Rule(name, Match(**{key: _value(key, text)}), decision, tier) for key, text in criteria.items()
    )


def _value(criterion: str, text: str) -> Any:
    if criterion in _PATTERNS:
        return text
    words = text.split()
    if criterion == "sqlstates":
        return tuple(words)
    return frozenset(map(int, words)) if criterion == "http" else frozenset(words)
