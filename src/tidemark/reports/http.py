"""`POST /reports` and `GET /reports/{id}`, mounted by `tidemark serve`, which authenticates their callers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidemark.contract.errors import UsageError
from tidemark.reports.requests.request import Status
from tidemark.reports.requests.store import StatusRow
from tidemark.reports.service import ReportService

CORRELATION = "X-Correlation-Id"
LARGEST_BODY = 256 * 1024


def report_routes(service: ReportService) -> list[Route]:
    """A submission is answered by 202 and the request's location; the same `requestId` and content again, by 200."""

    async def submit(request: Request) -> Response:
        body = await _object(request)
        if isinstance(body, Response):
            return body
        correlation_id = request.headers.get(CORRELATION)
        unknown = sorted(
            set(body) - {"requestId", "reportType", "requestedBy", "parameters", "parametersJson"}
        )
        if unknown:
            return _problem(400, f"unknown fields: {', '.join(unknown)}", correlation_id)
        if "parameters" in body and "parametersJson" in body:
            return _problem(400, "give `parameters` or `parametersJson`, not both", correlation_id)
        texts = ("requestId", "reportType", "requestedBy")
        if wrong := [name for name in texts if name in body and not isinstance(body[name], str)]:
            return _problem(400, f"not text: {', '.join(wrong)}", correlation_id)
        row, created = await run_in_threadpool(
            service.submit,
            body.get("reportType", ""),
            requested_by=body.get("requestedBy", ""),
            parameters=body.get("parameters", body.get("parametersJson", {})),
            request_id=body.get("requestId"),
            correlation_id=correlation_id,
        )
        return _answer(row, 202 if created else 200)

    async def status(request: Request) -> Response:
        return _answer(await run_in_threadpool(service.status, request.path_params["request_id"]), 200)

    async def newest(request: Request) -> Response:
        try:
            limit = int(request.query_params.get("limit", "20"))
        except ValueError:
            return _problem(400, "`limit` must be a number", None)
        rows = await run_in_threadpool(service.newest, max(1, min(limit, 500)))
        return JSONResponse([row.public() for row in rows])

    async def change(request: Request) -> Response:
        request_id, name = request.path_params["request_id"], request.path_params["step"]
        step = {"retry": service.retry, "cancel": service.cancel}.get(name)
        if step is None:
            return _problem(404, "there are `retry` and `cancel`", request.headers.get(CORRELATION))
        await run_in_threadpool(service.status, request_id)
        try:
            return _answer(await run_in_threadpool(step, request_id), 202)
        except UsageError as error:
            return _problem(409, error.message, request.headers.get(CORRELATION))

    return [
        Route("/reports", _guarded(submit, 400), methods=["POST"]),
        Route("/reports", newest, methods=["GET"]),
        Route("/reports/{request_id}", _guarded(status, 404), methods=["GET"]),
        Route("/reports/{request_id}/{step:str}", _guarded(change, 404), methods=["POST"]),
    ]


def _guarded(endpoint: Callable[[Request], Any], fault: int) -> Callable[[Request], Any]:
    async def guarded(request: Request) -> Response:
        try:
            answer: Response = await endpoint(request)
        except UsageError as error:
            conflict = "exists with other content" in error.message
            return _problem(
                409 if conflict else fault, error.message, request.headers.get(CORRELATION), error.hint
            )
        return answer

    return guarded


async def _object(request: Request) -> dict[str, Any] | Response:
    correlation_id = request.headers.get(CORRELATION)
    text = b""
    async for chunk in request.stream():
        text += chunk
        if len(text) > LARGEST_BODY:
            return _problem(413, f"the body is larger than {LARGEST_BODY} bytes", correlation_id)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return _problem(400, "the body is not JSON", correlation_id)
    return body if isinstance(body, dict) else _problem(400, "the body is not a JSON object", correlation_id)


def _answer(row: StatusRow, status: int) -> Response:
    place = f"/reports/{quote(row.request.request_id, safe='')}"
    headers = {CORRELATION: _in_header(row.correlation_id), "Location": place}
    if row.status in (Status.SUBMITTED, Status.IN_PROGRESS):
        headers["Retry-After"] = "2"
    return JSONResponse(row.public(), status_code=status, headers=headers)


def _in_header(text: str) -> str:
    """A correlation id of another producer may not fit a header."""
    return text if text.isascii() and text.isprintable() else quote(text, safe=" ")


def _problem(status: int, detail: str, correlation_id: str | None, hint: str | None = None) -> Response:
    body = {"status": status, "detail": detail, **({"hint": hint} if hint else {})}
    headers = {CORRELATION: correlation_id} if correlation_id else None
    return JSONResponse(body, status_code=status, headers=headers, media_type="application/problem+json")
