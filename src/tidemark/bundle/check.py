"""Every check of the bundle in one call: shape, rules, typed models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidemark.bundle.compute import compute_drift
from tidemark.bundle.finding import Finding
from tidemark.bundle.rules import bundle as rules_bundle
from tidemark.bundle.rules import jobs as rules_jobs
from tidemark.bundle.rules import notebooks as rules_notebooks
from tidemark.bundle.rules import serverless as rules_serverless
from tidemark.bundle.rules import unity as rules_unity
from tidemark.bundle.shape import bundle_shape
from tidemark.bundle.source import BundleSource, read_bundle
from tidemark.bundle.target import Described, described
from tidemark.bundle.typed import typed_models

Rule = Callable[[BundleSource, Sequence[Described]], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    bundle_shape,
    *rules_bundle.RULES,
    *rules_jobs.RULES,
    *rules_serverless.RULES,
    *rules_notebooks.RULES,
    *rules_unity.RULES,
    compute_drift,
    typed_models,
)


def check_bundle(folder: Path) -> list[Finding]:
    """All findings, in order of file and line. Raises UsageError where a file cannot be read at all."""
    source = read_bundle(folder)
    shape = list(bundle_shape(source, []))
    if shape:
        return sorted(shape)
    targets = [described(source, name) for name in source.targets]
    return sorted({finding for rule in RULES for finding in rule(source, targets)})
