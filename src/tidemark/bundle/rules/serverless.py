"""Keys of the configuration that the serverless jobs of a target cannot run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tidemark.bundle.configuration import CONFIGURATION, faulty_configuration, settings_of
from tidemark.bundle.finding import Found
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.config.reading.faults import Place
from tidemark.config.serverless import serverless_faults
from tidemark.contract.errors import ConfigError


def serverless_configuration(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """No stream of the target's configuration needs what its serverless jobs do not have."""
    for described in targets:
        tasks = [task for job in described.named("jobs").values() for task in job.get("tasks") or []]
        serverless = any("environment_key" in task for task in tasks)
        if not serverless or not (source.root / CONFIGURATION).is_file():
            continue
        try:
            faults = list(serverless_faults(settings_of(source, described)))
        except ConfigError as error:
            yield faulty_configuration(described, error)
            continue
        for fault in faults:
            path = Path(fault.file).resolve()
            inside = path.is_relative_to(source.root)
            name = path.relative_to(source.root).as_posix() if inside else fault.file
            problem = f"{fault.key} ({described.target}): {fault.problem}"
            yield Place(name, max(1, fault.line)), problem, fault.hint


RULES = (serverless_configuration,)
