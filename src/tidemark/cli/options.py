"""Options that several commands have, and how a command opens the configuration."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from tidemark.config.reading.load import load_settings
from tidemark.config.settings import Settings
from tidemark.contract.errors import UsageError
from tidemark.monitoring.logging import configure_logs

DEFAULT_CONFIG = Path("conf/tidemark.yml")

Config = Annotated[
    Path, typer.Option("--config", "-c", envvar="TIDEMARK_CONFIG", help="Configuration file.", metavar="FILE")
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", envvar="TIDEMARK_TARGET", help="Lay the overrides of this target over it, such as prod."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
Streams = Annotated[
    list[str] | None, typer.Option("--stream", "-s", help="Only this stream; repeatable. By default all.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def open_settings(
    config: Path = DEFAULT_CONFIG,
    target: str | None = None,
    *,
    streams: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Load the configuration and set up the logs that it asks for.

    Raises ConfigError with every fault, UsageError where one of `streams` is unknown.
    """
    settings = load_settings(config, target=target or None, environ=environ)
    configure_logs(settings.logging)
    for name in streams:
        settings.stream(name)
    return settings


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Call `stop` at Ctrl-C and SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


def by_partition(option: str, given: list[str], pattern: str, usage: str) -> dict[int, list[int]]:
    """The numbers of options such as `0=1500..2000`, by partition; `pattern` has a group for each number.

    Raises UsageError for another form, numbers that do not ascend, and a partition that is named twice.
    """
    found: dict[int, list[int]] = {}
    for each in given:
        match = re.fullmatch(pattern, each)
        partition, *numbers = [int(group) for group in match.groups()] if match else [-1]
        if match is None or numbers != sorted(set(numbers)):
            raise UsageError(f"{option} {each}: write {usage}")
        if partition in found:
            raise UsageError(f"{option} {each}: partition {partition} is named twice")
        found[partition] = numbers
    return found
