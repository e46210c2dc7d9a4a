"""The page of report requests: submit, retry, cancel. The API under `/reports` does the same for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from tidemark.console.lazy import Lazy
from tidemark.console.people import fields_of, noted
from tidemark.console.rendering import page
from tidemark.contract.errors import TidemarkError
from tidemark.monitoring.access import Receive, Scope, Send, redirect
from tidemark.monitoring.metrics import Metrics
from tidemark.reports.http import report_routes
from tidemark.reports.service import REQUEST_ID, ReportService
from tidemark.reports.sweeper import counted

MOST_ROWS = 50
_NOTICES = {"submit": "is asked for", "retry": "is asked for again", "cancel": "is cancelled"}
"""Notices by the name in the address: no page shows a text that a link contains."""


class LateReports:
    """The report service, opened when it is first needed: the console starts without the status database."""

    def __init__(self, open_service: Callable[[], ReportService]) -> None:
        self.service = Lazy(open_service)

    def close(self) -> None:
        if (service := self.service.made) is not None:
            service.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The API of `/reports`, as an ASGI application."""
        service = await run_in_threadpool(self.service)
        await Router(routes=report_routes(service))(scope, receive, send)


def report_pages(reports: LateReports, types: Sequence[str], metrics: Metrics) -> list[Route]:
    def rows() -> list[object]:
        service = reports.service()
        counted(metrics, service.counts())
        return list(service.newest(MOST_ROWS))

    async def listed(request: Request, problem: str | None = None) -> Response:
        fragment = request.scope["path"].startswith("/fragments/")
        return page(
            request,
            "report_requests_live.html" if fragment else "report_requests.html",
            rows=await run_in_threadpool(rows),
            types=types,
            problem=problem,
            done=_notice(request),
            status=200 if problem is None else 400,
        )

    async def submit(request: Request) -> Response:
        fields = await fields_of(request)
        try:
            who, _ = noted(request, "submit report", fields, report_type=fields.get("report_type", ""))
            service = await run_in_threadpool(reports.service)
            row, _ = await run_in_threadpool(
                service.submit,
                fields.get("report_type", ""),
                requested_by=who,
                parameters=fields.get("parameters") or "{}",
            )
        except TidemarkError as error:
            return await listed(request, error.message)
        return _back(request, "submit", row.request.request_id)

    async def change(request: Request) -> Response:
        fields = await fields_of(request)
        step, request_id = request.scope["path"].rpartition("/")[2], request.path_params["request_id"]
        try:
            service = await run_in_threadpool(reports.service)
            noted(request, f"{step} report", fields, request_id=request_id)
            change = service.retry if step == "retry" else service.cancel
            row = await run_in_threadpool(change, request_id)
        except TidemarkError as error:
            return await listed(request, error.message)
        return _back(request, step, row.request.request_id)

    return [
        Route("/report-requests", listed, methods=["GET"]),
        Route("/fragments/report-requests", listed, methods=["GET"]),
        Route("/report-requests", submit, methods=["POST"]),
        *(
            Route(f"/report-requests/{{request_id}}/{s}", change, methods=["POST"])
            for s in ("retry", "cancel")
        ),
    ]


def _back(request: Request, done: str, request_id: str) -> Response:
    return redirect(request, f"/report-requests?{urlencode({'done': done, 'id': request_id})}")


def _notice(request: Request) -> str | None:
    asked = request.query_params
    words, request_id = _NOTICES.get(asked.get("done", "")), asked.get("id", "")
    return f"{request_id} {words}." if words and REQUEST_ID.fullmatch(request_id) else None
