"""How failures of Acme's warehouse are judged: it is often busy for a while, and then heals."""

from __future__ import annotations

from tidemark.contract.failures import Action, Decision, Scope
from tidemark.resilience.match import Match
from tidemark.resilience.rule import Rule

RULES = [
    Rule(
        "acme-warehouse-busy",
        Match(class_pattern=r"WarehouseBusy$"),
        Decision("WAREHOUSE", Action.RETRY, Scope.DEPENDENCY, counts_for_breaker=True, max_retries=10),
    )
]
