"""Runs each batch as a run of a Databricks job, and waits for the run's final state."""

from __future__ import annotations

import base64
import hashlib
import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from databricks.sdk.errors import NotFound, PermissionDenied, Unauthenticated
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.jobs import Run, RunLifeCycleState, RunResultState

from tidemark.config.listener import JobExecutorOptions
from tidemark.contract.failures import Scope
from tidemark.listener.delivery.batch import Batch, BatchResult, Record
from tidemark.listener.delivery.failure import Failure

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

log = structlog.get_logger("tidemark.listener")

ENDED = frozenset({RunLifeCycleState.TERMINATED, RunLifeCycleState.SKIPPED, RunLifeCycleState.INTERNAL_ERROR})
# The job never ran, or the platform took it down: the records had no part in it.
PLATFORM_RESULTS = frozenset(
    {
        RunResultState.MAXIMUM_CONCURRENT_RUNS_REACHED,
        RunResultState.UPSTREAM_CANCELED,
        RunResultState.UPSTREAM_FAILED,
        RunResultState.EXCLUDED,
        RunResultState.CANCELED,
    }
)
STOPPING = (NotFound, PermissionDenied, Unauthenticated)


@dataclass(frozen=True)
class DatabricksJobExecutor:
    """The job gets the parameters `batch` (a file of JSON lines), `result` (a file it may write), `attempt`.

    Each line of `batch` is a record: topic, partition, offset, timestamp, key and value in base64,
    headers as pairs. A job that did only a part writes `{"failed": {"3": "why"}, "untouched": [4, 5]}`,
    by index, to `result`, and ends well; without it, the run's state applies to the whole batch.

    The idempotency token begins with a hash of the records, of the topics' ids and of how often they were
    handed over, and ends with a random part, which the name of the batch's file keeps while the run goes on.
    So a listener that died finds the run of that batch instead of starting another, and a batch that comes
    again after its run has ended, as when the group's offsets were set back, is run again.
    """

    workspace: WorkspaceClient
    options: JobExecutorOptions

    def submit(self, batch: Batch) -> JobExecution:
        execution = JobExecution(self.workspace, self.options, batch)
        execution.start()
        return execution

    def close(self) -> None:
        """Nothing is held between two executions."""


class JobExecution:
    """One run. `wait` asks for its state no more often than `poll-interval`."""

    def __init__(self, workspace: WorkspaceClient, options: JobExecutorOptions, batch: Batch) -> None:
        self._workspace, self._options, self._batch = workspace, options, batch
        self._folder = Path(options.location)
        self._files: tuple[Path, ...] = ()
        self.run_id: int | None = None
        self._result: BatchResult | None = None
        self._ask_at = 0.0
        self._deadline = time.monotonic() + options.timeout

    def start(self) -> None:
        """Writes the batch to its file and starts the run, or finds the one that has its token already."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            token = self._token()
            batch, result = self._folder / f"{token}.jsonl", self._folder / f"{token}.result.json"
            self._files = (batch, result)
            batch.write_text("".join(line_of(record) for record in self._batch.records))
            started = self._workspace.jobs.run_now(
                self._options.job_id,
                idempotency_token=token,
                job_parameters={
                    "batch": str(batch),
                    "result": str(result),
                    "attempt": str(self._batch.attempt),
                },
            )
            self.run_id = int(started.bind()["run_id"])
            log.info("job run started", run_id=self.run_id, records=len(self._batch))
        except (DatabricksError, OSError) as error:
            self._end(self._not_reached(error))

    def _token(self) -> str:
        """That of the run which a listener that died left behind, or a new one. At most 64 characters."""
        name = hash_of(self._batch)
        for left in self._folder.glob(f"{name}-*.jsonl"):
            # The run of an older file has ended, and its batch now comes again.
            if time.time() - left.stat().st_mtime < self._options.timeout:
                return left.stem
        return f"{name}-{uuid.uuid4().hex[:20]}"

    def wait(self, timeout: float) -> BatchResult | None:
        if self._result is None:
            time.sleep(min(timeout, max(0.0, self._ask_at - time.monotonic())))
            if time.monotonic() >= self._ask_at:
                self._ask_at = time.monotonic() + self._options.poll_interval
                self._ask()
        return self._result

    def cancel(self) -> None:
        """Asks Databricks to end the run; its records will come again."""
        if self.run_id is None or self._result is not None:
            return
        try:
            self._workspace.jobs.cancel_run(self.run_id)
            log.info("job run cancelled", run_id=self.run_id)
        except DatabricksError as error:
            log.warning("job run could not be cancelled", run_id=self.run_id, error=str(error))

    def _ask(self) -> None:
        assert self.run_id is not None
        try:
            run = self._workspace.jobs.get_run(self.run_id)
        except STOPPING as error:
            self._end(self._not_reached(error))
            return
        except (DatabricksError, OSError) as error:
            # The run goes on, although its state cannot be read.
            log.warning("job run's state unknown", run_id=self.run_id, error=str(error))
            run = Run()
        state = run.state.life_cycle_state if run.state else None
        if state in ENDED:
            self._end(self._final(run))
        elif time.monotonic() >= self._deadline:
            self.cancel()
            self._end(
                self._whole(f"run {self.run_id} took longer than {self._options.timeout:g} s", "TIMEDOUT")
            )

    def _final(self, run: Run) -> BatchResult:
        state = run.state
        life = state.life_cycle_state if state else None
        result = state.result_state if state else None
        reported = (state.state_message if state else None) or ""
        name = result.value if result else life.value if life else "UNKNOWN"
        message = f"run {self.run_id} ended {name}: {reported}".rstrip(": ")
        if result is RunResultState.SUCCESS:
            return self._in_part() or BatchResult.success()
        if life is not RunLifeCycleState.TERMINATED or result in PLATFORM_RESULTS:
            return self._whole(message, name, scope=Scope.DEPENDENCY)
        return self._in_part() or self._whole(message, name)

    def _in_part(self) -> BatchResult | None:
        """The job's own result about single records; a file that cannot be read fails the whole batch."""
        try:
            reported = json.loads(self._files[1].read_text())
            failures = {
                int(index): Failure("DatabricksJob", str(why), category="JOB", condition="RECORD_FAILED")
                for index, why in reported.get("failed", {}).items()
            }
            untouched = [int(index) for index in reported.get("untouched", ())]
            return BatchResult.of_failures(len(self._batch), failures, untouched)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError, TypeError) as error:
            return self._whole(f"the job's result file cannot be read: {error}", "BAD_RESULT")

    def _not_reached(self, error: Exception) -> BatchResult:
        scope = Scope.PROCESS if isinstance(error, STOPPING) else Scope.DEPENDENCY
        return self._whole(f"job {self._options.job_id}: {error}", type(error).__name__, scope=scope)

    def _whole(self, message: str, condition: str, *, scope: Scope = Scope.RECORD) -> BatchResult:
        failure = Failure("DatabricksJob", message, scope=scope, condition=condition, category="JOB")
        return BatchResult.whole_failure(len(self._batch), failure)

    def _end(self, result: BatchResult) -> None:
        self._result = result
        for file in self._files:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                log.warning("batch file left behind", file=str(file), error=str(error))


def hash_of(batch: Batch) -> str:
    """40 characters: offsets alone mean nothing where a topic was created again."""
    lines = [line_of(record) for record in batch.records]
    ids = {record.topic: batch.topic_ids.get(record.topic) for record in batch.records}
    text = json.dumps([sorted(ids.items()), lines, batch.submission], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def line_of(record: Record) -> str:
    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    return (
        json.dumps(
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": text(record.key),
                "value": text(record.value),
                "headers": [[name, text(value)] for name, value in record.headers],
                "correlation_id": record.correlation_id,
            },
            separators=(",", ":"),
        )
        + "\n"
    )
