"""One listener, put together from the configuration: what `tidemark listen` and a notebook call."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.config.listener import Listener
from tidemark.config.settings import Settings
from tidemark.contract.errors import ConfigError
from tidemark.listener.delivery.dead_letter import DeadLetterPublisher
from tidemark.listener.delivery.judging import backoff_of, judge_with
from tidemark.listener.delivery.rebalance import Notice
from tidemark.listener.executor import Executor, InProcessExecutor
from tidemark.listener.from_settings import connection_of, consumer_of, handler_of, listener_of
from tidemark.listener.listener import AtLeastOnceListener, Totals
from tidemark.listener.meter import Meter
from tidemark.listener.starting import StartingOffsets
from tidemark.monitoring.metrics import Metrics
from tidemark.resilience.classification import classifier_for


def listener_for(
    settings: Settings,
    *,
    handler: str | None = None,
    starting_offsets: StartingOffsets | None = None,
    on_assigned: Notice | None = None,
    on_progress: Callable[[Totals], None] | None = None,
    metrics: Metrics | None = None,
) -> AtLeastOnceListener:
    """`handler` goes over the configured one. Raises `ConfigError` if neither it nor a job is named."""
    section = listener_of(settings)
    if handler is not None:
        section = section.model_copy(update={"handler": handler, "job": None})
    return AtLeastOnceListener(
        section,
        consumer_of(settings),
        executor=_executor(section),
        dead_letters=DeadLetterPublisher(
            connection_of(settings),
            group=section.group_id,
            dlq_topic_of=section.dlq_topic_of,
            timeout=section.dlq_timeout,
        ),
        backoff=backoff_of(section.retry),
        starting_offsets=starting_offsets,
        on_assigned=on_assigned,
        on_progress=on_progress,
        meter=None if metrics is None else Meter(metrics, section.group_id),
    )


def _executor(section: Listener) -> Executor:
    if section.job is not None:
        from databricks.sdk import WorkspaceClient

        from tidemark.listener.job import DatabricksJobExecutor

        return DatabricksJobExecutor(WorkspaceClient(), section.job)
    if section.handler is None:
        raise ConfigError("the listener calls nothing", hint="name `listener.handler` or `listener.job`")
    return InProcessExecutor(handler_of(section.handler), judge=judge_with(classifier_for()))
