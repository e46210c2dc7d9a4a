"""`tidemark serve`: health, metrics, the console and the report API over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from tidemark.cli.options import DEFAULT_CONFIG, Config, Target, on_stop_signal, open_settings
from tidemark.cli.output import stderr
from tidemark.config.sections import MetricsSettings
from tidemark.contract.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    *,
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on; `metrics.host` by default.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", help="Port; `metrics.port` by default, 0 for any free one.")
    ] = None,
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two reads.")] = 5.0,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Runs until stopped (Ctrl-C or SIGTERM). Safe during an ingest; writes nothing by itself.

    Every user of this machine may read; payloads and changes need the token. Off loopback everything needs it.
    """
    from tidemark.console.serving import serving
    from tidemark.platform.notebook import app_environment
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target, environ=app_environment())
    at = _where(settings.metrics, host, port)
    with serving(settings, lambda: session_for(settings), at=at, every=every) as running:
        url = running.server.url
        sign_in = running.sign_in if running.made_up else f"{url}/sign-in, metrics.token"
        stderr().print(f"Serving on {url}\nTo see payloads and change things: {sign_in}")
        on_stop_signal(running.server.end)
        while not running.server.wait(0.5):
            pass


def _where(settings: MetricsSettings, host: str | None, port: int | None) -> MetricsSettings:
    """Raises UsageError where others can reach the address and there is no token."""
    given = {"host": host, "port": port}
    values = {**settings.model_dump(), **{k: v for k, v in given.items() if v is not None}}
    try:
        return MetricsSettings.model_validate({**values, "table": None})
    except ValidationError as error:
        raise UsageError(
            f"{host or settings.host}:{port if port is not None else settings.port}: "
            + error.errors()[0]["msg"].removeprefix("Value error, "),
            "set metrics.token, for example to ${TIDEMARK_TOKEN}",
        ) from None
