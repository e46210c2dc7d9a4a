"""The actuator endpoints of a working process, whose work never fails with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import structlog
from starlette.applications import Starlette

from tidemark.config.sections import MetricsSettings
from tidemark.contract.errors import TidemarkError
from tidemark.monitoring.access import Authentication, Token
from tidemark.monitoring.actuator import WITHOUT_TOKEN, actuator_routes
from tidemark.monitoring.health import HealthBoard
from tidemark.monitoring.metrics import Metrics
from tidemark.monitoring.server import HttpServer

log = structlog.get_logger(__name__)


@contextmanager
def endpoints(settings: MetricsSettings, metrics: Metrics, board: HealthBoard) -> Iterator[str | None]:
    """`/actuator/…` while the `with` lasts. Yields its URL; None where the address is in use, which is a warning."""
    secret = settings.token
    authentication = Authentication(
        Starlette(routes=actuator_routes(metrics, board)),
        token=Token(secret.get_secret_value()) if secret is not None else None,
        loopback=settings.is_loopback,
        open_paths=WITHOUT_TOKEN,
    )
    with ExitStack() as running:
        try:
            server = running.enter_context(HttpServer(authentication, host=settings.host, port=settings.port))
        except TidemarkError as error:
            metrics.add("tidemark_telemetry_errors_total", part="http")
            log.warning("metrics are not served; the work goes on", error=error.message, hint=error.hint)
            yield None
            return
        yield server.url
