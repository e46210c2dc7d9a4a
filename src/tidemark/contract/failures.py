"""The vocabulary of failures: the properties of one (`ErrorInfo`) and what to do about it (`Decision`).

These values can be pickled. They never hold the exception, which may keep a JVM object alive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from tidemark.contract.backoff import Backoff


class Action(StrEnum):
    """What to do after a failure."""

    RETRY = "RETRY"
    """Repeat the same step after a backoff."""
    RETRY_OP = "RETRY_OP"
    """Repeat the whole operation on a new snapshot: another commit came in between."""
    RESTART_QUERY = "RESTART_QUERY"
    """Start the streaming query again, from the ledger."""
    DLQ = "DLQ"
    """The record is bad; a retry cannot help."""
    STOP = "STOP"
    """A person must act."""
    TREAT_AS_SUCCESS = "TREAT_AS_SUCCESS"
    """The work is done; only something after it failed. Alert."""
    SHUTDOWN = "SHUTDOWN"
    """Not a failure: a signal asked the process to end."""


class Scope(StrEnum):
    """How far a failure reaches."""

    RECORD = "RECORD"
    DEPENDENCY = "DEPENDENCY"
    PROCESS = "PROCESS"


_LONGEST = 1000
_NO_MESSAGE = re.compile(
    r"\s+at \S|\s*\.\.\. \d+ (more|common)|JVM stacktrace:|\s+File \"|== (SQL|DataFrame)\b"
)
"""The first line of an exception's text that is not part of its message: frames, or the statement."""


def in_one_line(text: str) -> str:
    """All lines of an exception's message, without its trace: the second line often says what to do."""
    lines: list[str] = []
    for line in text.splitlines():
        if _NO_MESSAGE.match(line):
            break
        message, trace, _ = line.partition("Traceback (most recent call last)")
        lines.append(message.strip())
        # Spark adds the whole plan after its message.
        if trace or line.endswith(";"):
            break
    found = " ".join(line for line in lines if line)
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]}…"


@dataclass(frozen=True, slots=True)
class Link:
    """One exception of a cause chain. `kin`: the names of its class's ancestors, if known."""

    name: str
    message: str = ""
    kin: tuple[str, ...] = ()
    condition: str | None = None
    sqlstate: str | None = None
    http_status: int | None = None
    aws_code: str | None = None
    kafka_code: str | None = None
    grpc_code: str | None = None
    fatal: bool = False
    retry_after: float | None = None

    @property
    def simple_name(self) -> str:
        return simple(self.name)


def simple(name: str) -> str:
    """A class's own name, without its package or the class around it."""
    return name.rpartition(".")[2].rpartition("$")[2]


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """The properties of one failure, from the links of its cause chain, outermost first."""

    links: tuple[Link, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(link.name for link in self.links if link.name))

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(link.condition for link in self.links if link.condition))

    @property
    def sqlstates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(link.sqlstate for link in self.links if link.sqlstate))

    @property
    def http_status(self) -> int | None:
        return next((link.http_status for link in self.links if link.http_status), None)

    @property
    def aws_code(self) -> str | None:
        return next((link.aws_code for link in self.links if link.aws_code), None)

    @property
    def kafka_code(self) -> str | None:
        return next((link.kafka_code for link in self.links if link.kafka_code), None)

    @property
    def retry_after(self) -> float | None:
        """Seconds; the longest wait that any link requests."""
        return max((link.retry_after for link in self.links if link.retry_after is not None), default=None)

    @property
    def message(self) -> str:
        return next((link.message for link in self.links if link.message), "")

    @property
    def exception_class(self) -> str:
        """The outermost class, for the header `exception.class.name`."""
        return self.classes[0] if self.classes else ""

    @property
    def cause_class(self) -> str | None:
        """The innermost class if it differs, for the header `cause.class.name`."""
        return self.classes[-1] if len(self.classes) > 1 else None

    @property
    def summary(self) -> str:
        """One line for a person: the class and the message."""
        text = in_one_line(self.message)
        return f"{simple(self.exception_class)}: {text}" if text else simple(self.exception_class)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about a failure.

    `category` is a label of metrics, of a closed list. `max_retries` and `backoff`, where set, replace the
    stream's own. `then` is the action once retries are used up; None means that of `on-exhausted`,
    RETRY that they begin anew.
    `rule` is the name of the rule that decided.
    """

    category: str
    action: Action
    scope: Scope
    counts_for_breaker: bool = False
    max_retries: int | None = None
    backoff: Backoff | None = None
    then: Action | None = None
    rule: str = field(default="", compare=False)

    @property
    def retriable(self) -> bool:
        return self.action in (Action.RETRY, Action.RETRY_OP)


UNCLASSIFIED = Decision(
    "UNCLASSIFIED", Action.RETRY, Scope.DEPENDENCY, counts_for_breaker=True, rule="unclassified"
)
"""No rule matches the failure: retried within bounds, then handled as exhausted."""
