"""The web application of `tidemark serve`: actuator, console and report API behind one authentication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from tidemark.config.redaction import masked_text
from tidemark.console.people import FormTooLarge
from tidemark.console.rendering import page
from tidemark.console.report_pages import LateReports, report_pages
from tidemark.console.session import SIGN_IN, session_routes
from tidemark.console.stream_pages import StreamSources, stream_routes
from tidemark.contract.errors import RetriableError, TidemarkError, UsageError
from tidemark.monitoring.access import Authentication, Token
from tidemark.monitoring.actuator import WITHOUT_TOKEN, actuator_routes

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Parts:
    """The parts of the application. `further` are routes of parts that not every deployment has."""

    application: str
    streams: StreamSources
    reports: LateReports
    report_types: Sequence[str]
    further: Sequence[BaseRoute] = ()


def application_of(parts: Parts, *, token: Token, loopback: bool) -> Authentication:
    metrics, board = parts.streams.metrics, parts.streams.board
    static = str(resources.files("tidemark.console").joinpath("static"))
    app = Starlette(
        routes=[
            *actuator_routes(metrics, board),
            *session_routes(token),
            *stream_routes(parts.streams),
            *report_pages(parts.reports, parts.report_types, metrics),
            *parts.further,
            Mount("/static", StaticFiles(directory=static)),
            Mount("/", parts.reports),
        ],
        exception_handlers={
            TidemarkError: _problem,
            HTTPException: _http_problem,
            ClientDisconnect: _gone,
            Exception: _unexpected,
        },
    )
    app.state.application, app.state.token = parts.application, token
    static_files = frozenset({"/static/console.css", "/static/console.js", "/static/icon.svg"})
    return Authentication(
        app, token=token, loopback=loopback, open_paths=WITHOUT_TOKEN | static_files, sign_in=SIGN_IN
    )


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, TidemarkError)
    by_kind = ((FormTooLarge, 413), (UsageError, 404), (RetriableError, 503))
    status = next((code for kind, code in by_kind if isinstance(error, kind)), 500)
    return _answer(request, status, error.message, error.hint)


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = "There is no such page." if error.status_code == 404 else error.detail
    return _answer(request, error.status_code, detail, None)


async def _gone(request: Request, _: Exception) -> Response:
    # Nobody reads the answer: the connection ended before the request was complete.
    return _answer(request, 400, "the request ended too early", None)


async def _unexpected(request: Request, error: Exception) -> Response:
    # The text of an unknown error may hold secrets: only the log has it, masked.
    log.error("a page failed", path=request.scope["path"], exc_info=error)
    return _answer(request, 500, f"unexpected {type(error).__name__}; the log says more", None)


def _answer(request: Request, status: int, detail: str, hint: str | None) -> Response:
    detail = masked_text(detail)
    if "text/html" in request.headers.get("accept", ""):
        title = "Not found" if status == 404 else "That did not work"
        return page(request, "problem.html", status=status, title=title, detail=detail, hint=hint)
    body: dict[str, Any] = {"status": status, "detail": detail, **({"hint": hint} if hint else {})}
    return JSONResponse(body, status, media_type="application/problem+json")
