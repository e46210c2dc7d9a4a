"""`tidemark reports`: submit, work, status, retry, cancel."""

from __future__ import annotations

import getpass
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, on_stop_signal, open_settings
from tidemark.cli.output import print_json, stdout, table_of
from tidemark.cli.progress import Progress
from tidemark.config.settings import Settings
from tidemark.contract.errors import UsageError
from tidemark.listener.from_settings import connection_of
from tidemark.listener.meter import watched
from tidemark.monitoring.metrics import Metrics
from tidemark.reports.archive.archive import Archive
from tidemark.reports.archive.objects import open_objects
from tidemark.reports.assembly import open_service
from tidemark.reports.from_settings import reports_of, s3_credentials
from tidemark.reports.publisher import ensure_topics
from tidemark.reports.requests.request import Status
from tidemark.reports.requests.store import StatusRow
from tidemark.reports.service import ReportService
from tidemark.source.topics import KafkaAdmin

app = typer.Typer(add_completion=False, no_args_is_help=True)

Show = Annotated[bool, typer.Option("--show", help="Print the archived report too.")]
CreateTopics = Annotated[bool, typer.Option("--create-topics", help="Create the topics if missing.")]
_MOST_ROWS = 50
ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


@app.command()
def submit(
    report_type: Annotated[
        str, typer.Argument(help="PERFORMANCE, VOLUME, COMPLETENESS, or a type you added.")
    ],
    *,
    parameters: Annotated[str, typer.Option("--parameters", "-p", help="A JSON object.")] = "{}",
    requested_by: Annotated[
        str | None, typer.Option("--requested-by", help="The requester; by default your login.")
    ] = None,
    request_id: Annotated[
        str | None, typer.Option("--request-id", help="Makes submitting repeatable.")
    ] = None,
    correlation_id: Annotated[str | None, typer.Option("--correlation-id")] = None,
    create_topics: CreateTopics = False,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for the report.")] = 0,
    show: Show = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Store a request and publish it. Succeeds also when Kafka is down: the request is published later."""
    settings = _settings(config, target, create_topics=create_topics)
    with closing(_service(settings)) as service:
        row, _ = service.submit(
            report_type,
            requested_by=requested_by or getpass.getuser(),
            parameters=parameters,
            request_id=request_id,
            correlation_id=correlation_id,
        )
        if wait:
            row = _awaited(service, row, wait)
        _print([row], settings, as_json=as_json, show=show)
    if wait and row.status is not Status.COMPLETED:
        raise typer.Exit(1)


@app.command()
def status(
    request_id: Annotated[str | None, typer.Argument(help="One request; by default the newest ones.")] = None,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 20,
    show: Show = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Show the status of requests."""
    settings = open_settings(config, target)
    with closing(_service(settings)) as service:
        rows = service.newest(limit) if request_id is None else [service.status(request_id)]
        _print(rows, settings, as_json=as_json, show=show, many=request_id is None)


@app.command()
def retry(
    request_id: str, *, config: Config = DEFAULT_CONFIG, target: Target = None, as_json: AsJson = False
) -> None:
    """Run a FAILED request again, over the present versions of the tables."""
    settings = open_settings(config, target)
    with closing(_service(settings)) as service:
        _print([service.retry(request_id)], settings, as_json=as_json)


@app.command()
def cancel(
    request_id: str, *, config: Config = DEFAULT_CONFIG, target: Target = None, as_json: AsJson = False
) -> None:
    """Cancel a request that has not ended. A running one stops at its next heartbeat."""
    settings = open_settings(config, target)
    with closing(_service(settings)) as service:
        _print([service.cancel(request_id)], settings, as_json=as_json)


@app.command()
def work(
    *,
    create_topics: CreateTopics = False,
    until_idle: Annotated[
        float | None,
        typer.Option("--until-idle", min=0, help="End after this many seconds without a request."),
    ] = None,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Create reports until stopped, one at a time. More workers create more at once."""
    from tidemark.reports.run import worker_of

    settings = _settings(config, target, create_topics=create_topics)
    with Progress("reports", as_json=as_json) as progress:
        metrics = Metrics(settings.application_name)
        worker = worker_of(settings, on_progress=progress.show, metrics=metrics)
        progress.end_when_idle(until_idle, worker.listener)
        on_stop_signal(worker.stop)
        with watched(settings, metrics, lambda: worker.listener.heartbeat):
            worker.run()


def _settings(config: Path, target: str | None, *, create_topics: bool) -> Settings:
    settings = open_settings(config, target)
    if create_topics:
        ensure_topics(KafkaAdmin(settings.kafka), reports_of(settings))
    return settings


def _service(settings: Settings) -> ReportService:
    return open_service(reports_of(settings), connection_of(settings))


def _awaited(service: ReportService, row: StatusRow, seconds: float) -> StatusRow:
    deadline = time.monotonic() + seconds
    while row.status not in ENDED and time.monotonic() < deadline:
        time.sleep(0.2)
        row = service.status(row.request.request_id)
    return row


def _print(
    rows: list[StatusRow], settings: Settings, *, as_json: bool, show: bool = False, many: bool = False
) -> None:
    shown = [_with_report(row, settings) if show else row.public() for row in rows]
    if as_json:
        print_json(shown if many else shown[0])
        return
    columns = ("request", "type", "status", "attempts", "by", "archive", "error")
    cells = [
        (
            row.request.request_id,
            row.request.report_type,
            row.status.value,
            row.attempts,
            row.request.requested_by,
            row.archive_ref,
            row.error_message if row.status is Status.FAILED else None,
        )
        for row in rows
    ]
    stdout().print(table_of(columns, cells))
    for one in shown if show else []:
        if one.get("report"):
            _print_report(one["report"])


def _with_report(row: StatusRow, settings: Settings) -> dict[str, Any]:
    if row.archive_ref is None:
        return row.public()
    archive = Archive(open_objects(reports_of(settings).archive, credentials=s3_credentials(settings)))
    archived = archive.read(row.archive_ref)
    if archived is None:
        raise UsageError(
            f"the archive has no {row.archive_ref}",
            hint="compare `reports.archive.location` with that of the workers",
        )
    return {**row.public(), "report": {**archived.summary, "rows": archived.rows()}}


def _print_report(report: dict[str, Any]) -> None:
    rows, console = report["rows"], stdout()
    columns = list(rows[0]) if rows else ["(no rows)"]
    cells = [[str(value) for value in row.values()] for row in rows[:_MOST_ROWS]]
    console.print(table_of(columns, cells, title=report["request"]["reportType"]))
    if len(rows) > _MOST_ROWS:
        console.print(f"… and {len(rows) - _MOST_ROWS} more rows")
    console.print_json(data=report["summary"])
