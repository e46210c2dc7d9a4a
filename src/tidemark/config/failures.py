"""A stream's own rules for the classification of failures; docs/failures.md explains their order."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, field_validator, model_validator

from tidemark.config.base import Section
from tidemark.contract.backoff import Backoff
from tidemark.contract.failures import Action, Scope


class BackoffOptions(Section, used_by="pipeline"):
    base: float = Field(1.0, gt=0, description="Seconds before the second attempt.")
    factor: float = Field(2.0, ge=1, description="Factor of each further wait.")
    cap: float = Field(30.0, gt=0, description="Longest wait in seconds.")
    jitter: float = Field(0.25, ge=0, lt=1, description="Share by which a wait is spread either way.")

    def as_backoff(self) -> Backoff:
        return Backoff(self.base, self.factor, self.cap, self.jitter)


class FailureRule(Section, used_by="pipeline"):
    """What to do about a failure that fulfils every given criterion; at least one is needed."""

    name: str = Field(min_length=1, max_length=80, description="Name of the rule in logs.")
    class_: str | None = Field(None, description="Regular expression on class names, with their package.")
    condition: str | None = Field(
        None,
        description="Regular expression on the whole Spark or Delta condition, e.g. `DELTA_CONCURRENT_.*`.",
    )
    sqlstate: str | None = Field(
        None, pattern=r"^[0-9A-Z]{2,5}$", description="SQLSTATE, or its first characters."
    )
    http: tuple[int, ...] = Field((), description="HTTP statuses.")
    aws: tuple[str, ...] = Field((), description="AWS error codes, e.g. `SlowDown`.")
    kafka: tuple[str, ...] = Field((), description="Kafka error names, e.g. `_TRANSPORT`.")
    message: str | None = Field(None, description="Regular expression on the message.")
    action: Action = Field(description="What to do.")
    scope: Scope | None = Field(
        None,
        description="Scope of the failure; by default DLQ is RECORD, STOP is PROCESS, the rest DEPENDENCY.",
    )
    category: str = Field(
        "CONFIGURED", pattern=r"^[A-Z][A-Z0-9_]{0,39}$", description="Label in metrics and dead letters."
    )
    max_retries: int | None = Field(None, ge=0, description="Instead of the stream's `max-retries`.")
    backoff: BackoffOptions | None = Field(None, description="Instead of 1 s, doubled, up to 30 s.")
    then: Action | None = Field(
        None, description="STOP or DLQ once retries are used up; by default the stream's `on-exhausted`."
    )

    @field_validator("class_", "condition", "message")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"is not a regular expression: {error}") from error
        return value

    @model_validator(mode="after")
    def _criterion(self) -> Self:
        given = (
            self.class_, self.condition, self.sqlstate, self.http, self.aws, self.kafka, self.message
        )  # fmt: skip
        if not any(given):
            raise ValueError("needs a criterion: class, condition, sqlstate, http, aws, kafka or message")
        if self.then not in (None, Action.STOP, Action.DLQ):
            raise ValueError("`then` is STOP or DLQ")
        return self
