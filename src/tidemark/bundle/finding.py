"""What a check of the bundle found: where, what is wrong, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.bundle.yaml_lines import Place


@dataclass(frozen=True, order=True)
class Finding:
    """One fault. `rule` is a short name that docs/deploy.md explains; `mend` says what to write instead."""

    file: str
    line: int
    rule: str
    problem: str
    fix: str

    @classmethod
    def at(cls, place: Place, rule: str, problem: str, fix: str) -> Finding:
        return cls(place.file, place.line, rule, problem, fix)
