"""The base of every model of the configuration: kebab-case keys, frozen values, no unknown key."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from pydantic import BaseModel, ConfigDict, field_validator

_LARGEST_FLOAT = 10 * 365 * 86_400
"""Ten years of seconds. Beyond what timers and Spark's intervals hold a number would fail where it is used."""
_LARGEST_INT = 2**63 - 1
INT32 = 2**31 - 1
TIMEOUT_S = 2_147_483
"""Twenty-four days: the longest timeout in seconds that sockets and Kafka's clients hold as milliseconds."""


def kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


class Misread(ValueError):
    """A part of a value is wrong. The part is shown only where the value may be shown."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(problem)
        self.part = part


class Section(BaseModel):
    """One section of the file. Keys are kebab-case there and snake_case here; unknown keys are faults.

    `used_by` is documentation: the part of Tidemark that reads the section, such as Spark, the admin client
    or the listener. A key with another reader has it in its `json_schema_extra`.
    """

    used_by: ClassVar[str]

    model_config = ConfigDict(
        alias_generator=kebab,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
        allow_inf_nan=False,
    )

    def __init_subclass__(cls, *, used_by: str = "", **config: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**config)
        cls.used_by = used_by

    @field_validator("*")
    @classmethod
    def _within_reach(cls, value: Any) -> Any:
        if isinstance(value, float) and value > _LARGEST_FLOAT:
            raise ValueError(f"must be at most {_LARGEST_FLOAT} (ten years of seconds)")
        if isinstance(value, int) and value > _LARGEST_INT:
            raise ValueError(f"must be at most {_LARGEST_INT}")
        return value
