"""What a target on serverless compute asks for and would not get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tidemark.bundle.configuration import CONFIGURATION, settings_of
from tidemark.bundle.finding import Finding
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.config.serverless import serverless_faults
from tidemark.contract.errors import ConfigError


def serverless_configuration(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """No stream of the target's configuration needs what its serverless jobs do not have."""
    for described in targets:
        jobs = (described.resources.get("jobs") or {}).values()
        if not any("environment_key" in task for job in jobs for task in job.get("tasks") or []):
            continue
        if not (source.root / CONFIGURATION).is_file():
            continue
        try:
            faults = list(serverless_faults(settings_of(source, described)))
        except ConfigError as error:
            place = source.place(("targets", described.target))
            fix = f"tidemark check --config {CONFIGURATION} --target {described.target}"
            problem = f"its configuration is faulty: {error.message}"
            yield Finding.at(place, "serverless-configuration", problem, fix)
            continue
        for fault in faults:
            problem = f"{fault.key} ({described.target}): {fault.problem}"
            name = _shown(source, fault.file)
            yield Finding(name, max(1, fault.line), "serverless-configuration", problem, fault.hint)


def _shown(source: BundleSource, file: str) -> str:
    path = Path(file).resolve()
    return path.relative_to(source.root).as_posix() if path.is_relative_to(source.root) else file


RULES = (serverless_configuration,)
