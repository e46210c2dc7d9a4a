"""The listener of a configuration: the entry point of `tidemark listen` and of a notebook."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.config.listener import Listener
from tidemark.config.settings import Settings
from tidemark.contract.errors import ConfigError
from tidemark.listener.delivery.judging import judge_with
from tidemark.listener.delivery.rebalance import Notice
from tidemark.listener.executor import Executor, InProcessExecutor
from tidemark.listener.from_settings import connection_of, handler_of, listener_of
from tidemark.listener.listener import AtLeastOnceListener, Totals
from tidemark.listener.meter import Meter
from tidemark.listener.starting import StartingOffsets
from tidemark.monitoring.metrics import Metrics
from tidemark.resilience.classification import classifier_for

_CALL_S = 20


def listener_for(
    settings: Settings,
    *,
    handler: str | None = None,
    starting_offsets: StartingOffsets | None = None,
    on_assigned: Notice | None = None,
    on_progress: Callable[[Totals], None] | None = None,
    metrics: Metrics | None = None,
) -> AtLeastOnceListener:
    """`handler` replaces the configured one. Raises `ConfigError` if neither a handler nor a job is named."""
    section = listener_of(settings)
    if handler is not None:
        section = section.model_copy(update={"handler": handler, "job": None})
    return AtLeastOnceListener(
        section,
        connection_of(settings),
        executor=_executor(section),
        consumer={
            "isolation.level": settings.kafka.consumer.isolation_level,
            "fetch.wait.max.ms": settings.kafka.consumer.fetch_max_wait_ms,
        },
        starting_offsets=starting_offsets,
        on_assigned=on_assigned,
        on_progress=on_progress,
        meter=None if metrics is None else Meter(metrics, section.group_id),
    )


def _executor(section: Listener) -> Executor:
    if section.job is not None:
        from databricks.sdk import WorkspaceClient
        from databricks.sdk.core import Config

        from tidemark.listener.job import DatabricksJobExecutor

        # A call runs in the polling thread: the SDK's own five minutes would cost the listener its membership.
        config = Config(retry_timeout_seconds=_CALL_S, http_timeout_seconds=_CALL_S)
        return DatabricksJobExecutor(WorkspaceClient(config=config), section.job)
    if section.handler is None:
        raise ConfigError("the listener has no handler", hint="name `listener.handler` or `listener.job`")
    return InProcessExecutor(handler_of(section.handler), judge=judge_with(classifier_for()))
