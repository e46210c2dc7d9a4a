"""`tidemark breaker`: which destinations are left alone, and how to try one at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json
from tidemark.resilience.breaker_state import Remembered
from tidemark.resilience.breakers import Breakers

app = typer.Typer(
    help="Circuit breakers of the destinations: look at them, close them.", no_args_is_help=True
)


@app.command("list")
def list_breakers(*, config: Config = DEFAULT_CONFIG, target: Target = None, as_json: AsJson = False) -> None:
    """Every breaker that this machine's state folder knows, by name. Reads only."""
    found = Breakers.of(open_settings(config, target)).snapshots()
    if as_json:
        print_json([as_dict(one) for one in found])
    elif found:
        Console().print(breaker_table(found))
    else:
        Console().print("no breaker has been used yet: every destination is tried", highlight=False)


@app.command()
def reset(
    name: Annotated[
        str | None, typer.Argument(help="Name of the breaker, e.g. `orders/table`. All by default.")
    ] = None,
    *,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Close it at once, also in a process that runs. Exit code 2 if there is none of that name."""
    closed = Breakers.of(open_settings(config, target)).reset(name)
    if as_json:
        print_json({"closed": closed})
    else:
        Console().print(f"closed: {', '.join(closed) or 'none, as there are none'}", highlight=False)


def as_dict(breaker: Remembered) -> dict[str, Any]:
    opened = breaker.opened_at
    return {
        "name": breaker.name,
        "state": breaker.state.value,
        "failures": breaker.failures,
        "successes": breaker.successes,
        "opened_at": None if opened is None else datetime.fromtimestamp(opened, UTC).isoformat(),
    }


def breaker_table(breakers: list[Remembered]) -> Table:
    table = Table("breaker", "state", "failures in a row", "open since")
    for one in (as_dict(b) for b in breakers):
        style = {"CLOSED": "green", "OPEN": "red"}.get(one["state"], "yellow")
        table.add_row(
            one["name"], f"[{style}]{one['state']}[/{style}]", str(one["failures"]), one["opened_at"] or "–"
        )
    return table
