"""Every check of the bundle in one call: shape, rules, typed models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tidemark.bundle.compute import compute_drift
from tidemark.bundle.finding import Finding, Found
from tidemark.bundle.rules import bundle, jobs, notebooks, serverless, unity
from tidemark.bundle.shape import bundle_shape
from tidemark.bundle.source import BundleSource, read_bundle
from tidemark.bundle.target import Described, described
from tidemark.bundle.typed import typed_model

Rule = Callable[[BundleSource, Sequence[Described]], Iterator[Found]]

RULES: tuple[Rule, ...] = (
    bundle_shape,
    *bundle.RULES,
    *jobs.RULES,
    *serverless.RULES,
    *notebooks.RULES,
    *unity.RULES,
    compute_drift,
    typed_model,
)
"""A finding's rule is the function's name, with hyphens."""


def check_bundle(folder: Path) -> list[Finding]:
    """All findings, in order of file and line. Raises UsageError where a file cannot be read at all."""
    source = read_bundle(folder)
    misshapen = _findings([bundle_shape], source, [])
    return misshapen or _findings(RULES, source, [described(source, name) for name in source.targets])


def _findings(rules: Iterable[Rule], source: BundleSource, targets: Sequence[Described]) -> list[Finding]:
    found = {
        Finding(place.file, place.line, rule.__name__.replace("_", "-"), problem, fix)
        for rule in rules
        for place, problem, fix in rule(source, targets)
    }
    return sorted(found)
