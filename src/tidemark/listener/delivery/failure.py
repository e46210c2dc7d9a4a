"""`Failure`: one failure as a value, made where it was caught; the exception itself is never kept."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.contract.failures import Decision, ErrorInfo, Scope


@dataclass(frozen=True)
class Failure:
    """The part of a failure that the listener uses. `scope` decides what is done about the record.

    `retriable`: another attempt may succeed. `deferred`: not an attempt at all (an open breaker).
    """

    exception_class: str
    message: str
    scope: Scope = Scope.RECORD
    retriable: bool = True
    deferred: bool = False
    retry_after: float | None = None
    cause_class: str | None = None
    condition: str | None = None
    sqlstate: str | None = None
    category: str = "UNCLASSIFIED"

    @classmethod
    def of(
        cls,
        error_info: ErrorInfo,
        decision: Decision,
        *,
        scope: Scope | None = None,
        retriable: bool = True,
        deferred: bool = False,
        message: str | None = None,
    ) -> Failure:
        """`scope` and `message` replace those of the decision and of the error info."""
        return cls(
            exception_class=error_info.exception_class,
            message=error_info.message if message is None else message,
            scope=decision.scope if scope is None else scope,
            retriable=retriable,
            deferred=deferred,
            retry_after=error_info.retry_after,
            cause_class=error_info.cause_class,
            condition=next(iter(error_info.conditions), None),
            sqlstate=next(iter(error_info.sqlstates), None),
            category=decision.category,
        )
