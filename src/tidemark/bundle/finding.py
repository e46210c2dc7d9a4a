"""What the checks of the bundle find: where, what is wrong, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.config.reading.faults import Place

Found = tuple[Place, str, str]
"""What a rule yields: the place, the problem, and the fix."""


@dataclass(frozen=True, order=True)
class Finding:
    """One fault. `rule` is a short name that docs/deploy.md explains; `fix` is what to write instead."""

    file: str
    line: int
    rule: str
    problem: str
    fix: str
