"""`Rule`, and the tiers in which a classifier asks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from tidemark.contract.failures import Decision, ErrorInfo


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
    """Families that say little: an I/O error, a service error."""
    WORDS_VETO = 5
    """What the message says, where nothing else is known: what cannot heal."""
    WORDS = 6
    """What the message says, where nothing else is known: what may heal."""
    LAST = 7
    """Internal errors of Spark and Delta whose cause no rule knows."""


@dataclass(frozen=True)
class Rule:
    """`predicate` gets the facts of one exception of the chain at a time."""

    name: str
    predicate: Callable[[ErrorInfo], bool]
    decision: Decision
    tier: Tier = Tier.SPECIFIC
