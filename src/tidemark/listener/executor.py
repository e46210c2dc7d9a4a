"""What runs a batch. One execution at a time; the listener asks for its final state."""

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
        self.cancelled = threading.Event()
        self._batch = batch
        self._handler = handler
        self._judge = judge
        self._result: BatchResult | None = None
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, name="execution", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        batch = self._batch
        try:
            with structlog.contextvars.bound_contextvars(
                correlation_id=batch.correlation_id, batch_size=len(batch), attempt=batch.attempt
            ):
                returned = self._handler(self._batch)
            self._result = returned if isinstance(returned, BatchResult) else BatchResult.success()
        except BaseException as error:
            self._result = BatchResult.of_exception(len(self._batch), error, self._judge)
        finally:
            self._finished.set()

    def wait(self, timeout: float) -> BatchResult | None:
        return self._result if self._finished.wait(timeout) else None

    def cancel(self) -> None:
        self.cancelled.set()


class InProcessExecutor:
    """Calls `handler(batch)` in a thread of its own, while the listener's thread keeps polling.

    The handler returns nothing or a `BatchResult`. It raises `BatchFailure` or `PartialSuccess` to say
    which records failed; any other exception fails the whole batch. A handler cannot be killed: on
    cancellation `on_cancel` tells it, and the thread ends with the process.
    """

    def __init__(
        self, handler: Handler, *, judge: Judge, on_cancel: Callable[[], None] | None = None
    ) -> None:
        self._handler = handler
        self._judge = judge
        self._on_cancel = on_cancel

    def submit(self, batch: Batch) -> Execution:
        execution = ThreadExecution(batch, self._handler, self._judge)
        if self._on_cancel is not None:
            return _Cancelling(execution, self._on_cancel)
        return execution

    def close(self) -> None:
        """Nothing is held between two executions."""


class _Cancelling:
    def __init__(self, execution: ThreadExecution, on_cancel: Callable[[], None]) -> None:
        self._execution = execution
        self._on_cancel = on_cancel

    def wait(self, timeout: float) -> BatchResult | None:
        return self._execution.wait(timeout)

    def cancel(self) -> None:
        self._execution.cancel()
        self._on_cancel()
