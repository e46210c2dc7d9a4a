"""The pages of streams: the overview with charts, and one stream with its partitions and last commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidemark.console.charts import lag_chart, throughput_chart
from tidemark.console.rendering import page
from tidemark.ingest.monitoring.breaker_table import SeenBreaker
from tidemark.ingest.monitoring.watch import Watch
from tidemark.monitoring.health import HealthBoard, overall
from tidemark.monitoring.metrics import Metrics
from tidemark.operations.commits import CommitView
from tidemark.streams.status import StreamStatus


@dataclass(frozen=True)
class StreamSources:
    """The data sources of the stream pages. `commits` raises UsageError for an unknown stream.

    `open_codes`: (failure code, number of new dead letters), the most frequent first.
    """

    watch: Watch
    metrics: Metrics
    board: HealthBoard
    breakers: Callable[[], Sequence[SeenBreaker]]
    commits: Callable[[str], Sequence[CommitView]]
    stale_after: float
    open_codes: Callable[[str], Sequence[tuple[str, int]]] = lambda _: ()


def stream_routes(sources: StreamSources) -> list[Route]:
    async def overview(request: Request) -> Response:
        template = "overview.html" if request.scope["path"] == "/" else "overview_live.html"
        return page(request, template, **await run_in_threadpool(_overview, sources))

    async def one(request: Request) -> Response:
        name = request.path_params["name"]
        commits = await run_in_threadpool(sources.commits, name)
        found = sources.watch.statuses.get(name)
        fragment = request.scope["path"].startswith("/fragments/")
        return page(
            request,
            "stream_live.html" if fragment else "stream.html",
            name=name,
            stream=_shown(sources, found) if found is not None else None,
            commits=commits,
        )

    return [
        Route("/", overview),
        Route("/fragments/overview", overview),
        Route("/streams/{name}", one),
        Route("/fragments/streams/{name}", one),
    ]


def _overview(sources: StreamSources) -> Mapping[str, Any]:
    findings = sources.board.findings()
    return {
        "streams": [_shown(sources, status) for status in sources.watch.statuses.values()],
        "health": {"status": overall(findings).value, "findings": findings},
        "breakers": sources.breakers(),
        "problem": sources.watch.problem,
        "looked_at": sources.watch.looked_at,
    }


def _shown(sources: StreamSources, status: StreamStatus) -> Mapping[str, Any]:
    points = sources.watch.points(status.stream)
    metrics, name = sources.metrics, status.stream
    age = metrics.commit_age(name)
    waits = [
        metrics.value("tidemark_lag_seconds", stream=name, partition=str(p.partition))
        for p in status.partitions
    ]
    stale = status.lag > 0 and (age is None or age > sources.stale_after)
    return {
        "name": name,
        "topic": status.topic,
        "table": status.table,
        "problem": status.problem,
        "state": "UNKNOWN" if status.topic_id is None else "STALE" if stale else "FRESH",
        "lag": status.lag,
        "lag_seconds": max(waits, default=0.0),
        "commit_age": age,
        "partitions": status.partitions,
        "dead_letters": int(metrics.value("tidemark_dead_letter_topic_records", stream=name)),
        "open_codes": sources.open_codes(name),
        "lag_chart": lag_chart(points),
        "throughput_chart": throughput_chart(points),
    }
