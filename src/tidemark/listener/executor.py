"""Executors run batches, one execution at a time; the listener polls for its final state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import structlog

from tidemark.listener.delivery.batch import Batch, BatchResult
from tidemark.listener.delivery.failure import Failure

Handler = Callable[[Batch], object]
Judge = Callable[[BaseException], Failure]


class Execution(Protocol):
    """One batch under way."""

    def wait(self, timeout: float) -> BatchResult | None:
        """The final state, or None while it is still running after `timeout` seconds. Never raises."""
        ...

    def cancel(self) -> None:
        """Asks it to end early. Its result, whatever it is, will not be committed."""
        ...


class Executor(Protocol):
    def submit(self, batch: Batch) -> Execution: ...

    def close(self) -> None: ...


class ThreadExecution:
    def __init__(self, batch: Batch, handler: Handler, judge: Judge) -> None:
        self._batch, self._handler, self._judge = batch, handler, judge
        self._result: BatchResult | None = None
        self._finished = threading.Event()
        threading.Thread(target=self._run, name="execution", daemon=True).start()

    def _run(self) -> None:
        batch = self._batch
        try:
            with structlog.contextvars.bound_contextvars(
                correlation_id=batch.correlation_id, batch_size=len(batch), attempt=batch.attempt
            ):
                returned = self._handler(batch)
            self._result = returned if isinstance(returned, BatchResult) else BatchResult.success()
        except BaseException as error:
            self._result = self._judged(error)
        finally:
            self._finished.set()

    def _judged(self, error: BaseException) -> BatchResult:
        size = len(self._batch)
        try:
            return BatchResult.of_exception(size, error, self._judge)
        except Exception as also:
            # Without a result the listener would wait for ever.
            message = f"{type(error).__name__} could not be judged: {type(also).__name__}"
            return BatchResult.whole_failure(size, Failure(type(error).__name__, message))

    def wait(self, timeout: float) -> BatchResult | None:
        return self._result if self._finished.wait(timeout) else None

    def cancel(self) -> None:
        """A handler cannot be interrupted: its thread ends with the process."""


class InProcessExecutor:
    """Calls `handler(batch)` in a thread of its own, while the listener's thread keeps polling.

    The handler returns nothing or a `BatchResult`. It raises `BatchFailure` or `PartialSuccess` to name the records
    that failed; any other exception fails the whole batch. A handler cannot be cancelled.
    """

    def __init__(self, handler: Handler, *, judge: Judge) -> None:
        self._handler = handler
        self._judge = judge

    def submit(self, batch: Batch) -> Execution:
        return ThreadExecution(batch, self._handler, self._judge)

    def close(self) -> None:
        """Nothing is held between two executions."""
