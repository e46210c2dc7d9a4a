"""Log lines for people (`console`) or programs (`json`), with a correlation id and without secrets.

All logs of Tidemark go through structlog to the standard library's logger `tidemark`, which gets the handler
set here. The root logger, which belongs to the application, gets the same handler only where it has none, so
that other libraries' warnings look alike; its level does not change.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Collection, Iterable, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tidemark.config.redaction import MASK, is_secret_name, masked_text
from tidemark.config.redaction import redacted as redacted_mapping
from tidemark.config.sections import LoggingSettings
from tidemark.contract.escaping import escape_control_characters

LOGGER = "tidemark"
PAYLOAD_NAMES = frozenset(
    {"payload", "value", "body", "message_payload", "message_value", "original_value", "record_value", "row"}
)
"""Fields with the content of records. Logs show its length only."""

_TEXT_NAMES = ("event", "exception", "stack")
_PREFIX_NAMES = ("timestamp", "thread", "level", "correlation_id", "logger", "event", "exception", "stack")


def configure_logging(
    format: Literal["console", "json"] = "console",
    level: str = "INFO",
    *,
    secret_fields: Collection[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Set the logs up; a later call replaces the settings. Lines go to `stream`, else to the current standard
    error, as standard output belongs to the output of commands.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        _level_name,
        _thread_name,
        structlog.processors.TimeStamper(
            fmt="%Y-%m-%d %H:%M:%S.%f" if format == "console" else "iso", utc=True
        ),
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        Redaction(secret_fields),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    renderer: Processor = (
        ConsoleLine()
        if format == "console"
        else structlog.processors.JSONRenderer(default=str, sort_keys=False)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = _OwnHandler(stream)
    handler.setFormatter(formatter)
    ours, root = logging.getLogger(LOGGER), logging.getLogger()
    for logger in (ours, root):
        for earlier in [h for h in logger.handlers if isinstance(h, _OwnHandler)]:
            logger.removeHandler(earlier)
    ours.addHandler(handler)
    ours.setLevel(level.upper())
    ours.propagate = False
    if not root.handlers:
        root.addHandler(handler)
    # py4j logs every call at INFO and each lost connection of a stopping gateway at ERROR.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def configure_logs(asked: LoggingSettings) -> None:
    """Set the logs up as the configuration asks."""
    configure_logging(asked.format, asked.level, secret_fields=asked.secret_fields)


def bind(**fields: object) -> AbstractContextManager[None]:
    """Adds these fields to every line inside the `with`: `bind(stream="orders", batch=7, correlation_id=…)`.

    Applies to this thread and its coroutines; a new thread binds its own.
    """
    return structlog.contextvars.bound_contextvars(**fields)


class Redaction:
    """Masks values of secret names at any depth, secrets inside texts, payloads, and raw bytes."""

    def __init__(self, secret_fields: Iterable[str] = ()) -> None:
        self.further = frozenset(secret_fields)

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        return {name: self._shown(name, value) for name, value in event.items()}

    def _shown(self, name: str, value: object) -> object:
        if name.startswith("_"):  # structlog's own fields
            return value
        if name in PAYLOAD_NAMES and value is not None:
            return _hidden(value)
        if isinstance(value, dict):
            inner = {k: self._shown(str(k), v) for k, v in value.items()}
            return redacted_mapping({name: inner}, self.further)[name]
        if value not in (None, "") and not isinstance(value, bool) and is_secret_name(name, self.further):
            return MASK
        return self._plain(value)

    def _plain(self, value: object) -> object:
        if isinstance(value, bytes | bytearray | memoryview):
            return _hidden(value)
        if isinstance(value, str):
            return masked_text(value)
        if isinstance(value, dict):
            return {k: self._shown(str(k), v) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._plain(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return masked_text(str(value))


class ConsoleLine:
    """`2024-01-15 10:30:00.123 [thread] INFO [correlation id] logger - what happened key=value`."""

    def __call__(self, logger: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> str:
        fields = " ".join(f"{k}={_quoted(v)}" for k, v in event.items() if k not in _PREFIX_NAMES)
        time, thread, level = (str(event.get(name, "")) for name in ("timestamp", "thread", "level"))
        traced = f"[{_one_line(event.get('correlation_id') or '-')}] {event.get('logger', '')}"
        line = f"{time[:23]} [{thread}] {level} {traced} - {_one_line(event.get('event'))}"
        after = [
            escape_control_characters(str(event[name])) for name in ("stack", "exception") if event.get(name)
        ]
        return "\n".join([f"{line} {fields}" if fields else line, *after])


class _OwnHandler(logging.StreamHandler[TextIO]):
    """Writes to the current standard error, unless it has a stream."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream)
        self._chosen = stream

    def emit(self, record: logging.LogRecord) -> None:
        if self._chosen is None:
            self.stream = sys.stderr
        super().emit(record)


def _level_name(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    level = "warning" if method == "warn" else "error" if method == "exception" else method
    record = event.get("_record")
    event["level"] = {"WARNING": "WARN", "CRITICAL": "ERROR"}.get(
        name := (record.levelname if record is not None else level.upper()), name
    )
    return event


def _thread_name(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    record = event.get("_record")
    event["thread"] = record.threadName if record is not None else threading.current_thread().name
    return event


def _hidden(value: object) -> str:
    size = len(value) if isinstance(value, str | bytes | bytearray | memoryview) else None
    unit = "characters" if isinstance(value, str) else "bytes"
    return f"<{size} {unit}>" if size is not None else "<hidden>"


def _one_line(value: object) -> str:
    return escape_control_characters(str(value).replace("\r", "\\r").replace("\n", "\\n"))


def _quoted(value: object) -> str:
    text = _one_line(value)
    return f'"{text}"' if text == "" or any(c in text for c in ' ="') else text
