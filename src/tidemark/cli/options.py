"""Options that every command shares, and how a command opens the configuration and prints data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemark.config.reading.load import load_settings
from tidemark.config.settings import Settings
from tidemark.monitoring.logging import configure_logging

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


def open_settings(
    config: Path = DEFAULT_CONFIG, target: str | None = None, *, environ: Mapping[str, str] | None = None
) -> Settings:
    """Load the configuration and set the logs up as it says. Raises ConfigError with every fault."""
    settings = load_settings(config, target=target or None, environ=environ)
    logs = settings.logging
    configure_logging(logs.format, logs.level, secret_fields=logs.secret_fields)
    return settings


def print_json(value: Any) -> None:
    """One JSON value on standard output, and nothing else there."""
    typer.echo(json.dumps(value, default=str, ensure_ascii=False, indent=2))
