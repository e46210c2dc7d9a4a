"""`/actuator/health`, `/actuator/metrics`, `/actuator/prometheus` (`reliability-guarantees.md`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidemark.monitoring.health import HTTP_STATUS, Finding, Health, HealthBoard, overall
from tidemark.monitoring.metric_catalogue import PREFIX
from tidemark.monitoring.metrics import Metrics

LIVENESS, READINESS = "/actuator/health/liveness", "/actuator/health/readiness"
WITHOUT_TOKEN = frozenset({LIVENESS, READINESS})
"""Paths that answer without a token, with a status alone: an orchestrator's probe carries none."""

_UNIT = re.compile(r"_(seconds|bytes|records|records_per_second)(?:_total)?$")


def actuator_routes(metrics: Metrics, board: HealthBoard) -> list[Route]:
    """The endpoints. The application around them controls access."""

    async def links(request: Request) -> Response:
        base = str(request.url).split("?")[0].rstrip("/")
        paths = {"health": "", "metrics": "", "prometheus": "", "health-liveness": "health/liveness"}
        found = {name: {"href": f"{base}/{path or name}"} for name, path in paths.items()}
        return JSONResponse({"_links": found})

    async def health(_: Request) -> Response:
        return _answer(await run_in_threadpool(board.findings))

    async def one(request: Request) -> Response:
        name = request.path_params["indicator"]
        if name not in board.names:
            return JSONResponse(
                {"status": 404, "detail": f"no indicator {name}; there are {', '.join(board.names)}"}, 404
            )
        found = await run_in_threadpool(board.findings, (name,))
        finding = found[name]
        return JSONResponse(_shown(finding), HTTP_STATUS[finding.status])

    async def liveness(_: Request) -> Response:
        # Without checks: an unavailable dependency must not get the process killed.
        return JSONResponse({"status": Health.UP.value})

    async def readiness(_: Request) -> Response:
        status, _found = await run_in_threadpool(board.readiness)
        return JSONResponse({"status": status.value}, HTTP_STATUS[status])

    async def names(_: Request) -> Response:
        found = {_exported(f.name, f.type) for f in metrics.families() if f.name.startswith(PREFIX)}
        return JSONResponse({"names": sorted(found)})

    async def metric(request: Request) -> Response:
        wanted = dict(t.split(":", 1) for t in request.query_params.getlist("tag") if ":" in t)
        body = _metric(metrics, request.path_params["name"], wanted)
        return JSONResponse(body, 200 if "measurements" in body else 404)

    async def prometheus(request: Request) -> Response:
        text, kind = await run_in_threadpool(metrics.exposition, request.headers.get("accept", ""))
        return Response(text, media_type=kind)

    return [
        Route("/actuator", links),
        Route("/actuator/health", health),
        Route(LIVENESS, liveness),
        Route(READINESS, readiness),
        Route("/actuator/health/{indicator}", one),
        Route("/actuator/metrics", names),
        Route("/actuator/metrics/{name}", metric),
        Route("/actuator/prometheus", prometheus),
    ]


def _answer(found: Mapping[str, Finding]) -> Response:
    status = overall(found)
    body = {
        "status": status.value,
        "components": {name: _shown(finding) for name, finding in found.items()},
        "groups": ["liveness", "readiness"],
    }
    return JSONResponse(body, HTTP_STATUS[status])


def _shown(finding: Finding) -> dict[str, object]:
    return {"status": finding.status.value, **({"details": dict(finding.details)} if finding.details else {})}


def _exported(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def _metric(metrics: Metrics, name: str, tags: Mapping[str, str]) -> dict[str, object]:
    """Sums of one metric's samples, and the labels that `?tag=name:value` can filter by."""
    family = next((f for f in metrics.families() if _exported(f.name, f.type) == name), None)
    if family is None:
        return {"status": 404, "detail": f"no metric {name}; GET /actuator/metrics names them"}
    sums: dict[str, float] = {}
    labels: dict[str, set[str]] = {}
    for sample in family.samples:
        if sample.name.endswith(("_created", "_bucket")) or not tags.items() <= sample.labels.items():
            continue
        statistic = {"_count": "COUNT", "_sum": "TOTAL_TIME"}.get(
            sample.name.removeprefix(family.name), "VALUE"
        )
        sums[statistic] = sums.get(statistic, 0.0) + sample.value
        for label, value in sample.labels.items():
            labels.setdefault(label, set()).add(value)
    unit = _UNIT.search(name)
    return {
        "name": name,
        "description": family.documentation,
        "baseUnit": unit.group(1) if unit else None,
        "measurements": [{"statistic": s, "value": v} for s, v in sums.items()],
        "availableTags": [
            {"tag": label, "values": sorted(values)} for label, values in labels.items() if label not in tags
        ],
    }
