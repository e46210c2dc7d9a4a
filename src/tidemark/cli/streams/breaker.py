"""`tidemark breaker`: show which destinations are not tried for now, and reset a breaker."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings
from tidemark.cli.output import print_json, stdout, table_of
from tidemark.resilience.breaker_state import Remembered
from tidemark.resilience.breakers import Breakers

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.command("list")
def list_breakers(*, config: Config = DEFAULT_CONFIG, target: Target = None, as_json: AsJson = False) -> None:
    """Every breaker in this machine's state folder, by name. Reads only."""
    found = [_as_dict(breaker) for breaker in Breakers.of(open_settings(config, target)).snapshots()]
    if as_json:
        print_json(found)
    elif found:
        columns = ("breaker", "state", "failures in a row", "open since")
        stdout().print(table_of(columns, [_row(breaker) for breaker in found]))
    else:
        stdout().print("no breaker has been used yet: every destination is tried")


@app.command()
def reset(
    name: Annotated[
        str | None, typer.Argument(help="Name of the breaker, e.g. `orders/table`. By default all.")
    ] = None,
    *,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Close it at once, also in a running process. Exit code 2 if no breaker has that name."""
    closed = Breakers.of(open_settings(config, target)).reset(name)
    if as_json:
        print_json({"closed": closed})
    else:
        stdout().print(f"closed: {', '.join(closed) or 'none, as there are none'}")


def _as_dict(breaker: Remembered) -> dict[str, Any]:
    opened = breaker.opened_at
    return {
        "name": breaker.name,
        "state": breaker.state.value,
        "failures": breaker.failures,
        "successes": breaker.successes,
        "opened_at": None if opened is None else datetime.fromtimestamp(opened, UTC).isoformat(),
    }


def _row(breaker: dict[str, Any]) -> tuple[Any, ...]:
    style = {"CLOSED": "green", "OPEN": "red"}.get(breaker["state"], "yellow")
    state = Text(breaker["state"], style=style)
    return breaker["name"], state, breaker["failures"], breaker["opened_at"] or "–"
