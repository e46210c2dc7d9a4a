"""`Match`: the criteria of a rule about one exception of a chain. A value, so that rules pickle and print."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemark.contract.failures import ErrorInfo, Link, simple


@dataclass(frozen=True)
class Match:
    """True if any link fulfils every criterion that is set; within one criterion any entry will do.

    `classes` are names with or without their package, of the class itself or an ancestor where
    ancestors are known. `conditions` also match their sub-conditions, `sqlstates` are prefixes.
    `class_pattern` and `message` are regular expressions, searched for.
    """

    classes: frozenset[str] = frozenset()
    class_pattern: str | None = None
    conditions: frozenset[str] = frozenset()
    condition_pattern: str | None = None
    sqlstates: tuple[str, ...] = ()
    http: frozenset[int] = frozenset()
    aws: frozenset[str] = frozenset()
    kafka: frozenset[str] = frozenset()
    kafka_pattern: str | None = None
    grpc: frozenset[str] = frozenset()
    message: str | None = None
    fatal: bool = False
    without_aws: bool = False

    def __call__(self, error_info: ErrorInfo) -> bool:
        return any(self._fits(link) for link in error_info.links)

    def _fits(self, link: Link) -> bool:
        return all(
            (
                not self.classes or bool(self.classes & _names(link)),
                self.class_pattern is None or _found(self.class_pattern, *_all_names(link)),
                not self.conditions or bool(self.conditions & {link.condition, _base(link.condition)}),
                self.condition_pattern is None or _found(self.condition_pattern, link.condition),
                not self.sqlstates or (link.sqlstate or "").startswith(self.sqlstates),
                not self.http or link.http_status in self.http,
                not self.aws or link.aws_code in self.aws,
                not self.kafka or link.kafka_code in self.kafka,
                self.kafka_pattern is None or _found(self.kafka_pattern, link.kafka_code),
                not self.grpc or link.grpc_code in self.grpc,
                self.message is None or _found(self.message, link.message),
                not self.fatal or link.fatal,
                not (self.without_aws and (link.aws_code or "awssdk" in link.name or "s3a" in link.name)),
            )
        )


def _all_names(link: Link) -> tuple[str, ...]:
    return (link.name, *link.kin) if link.name else ()


def _names(link: Link) -> set[str]:
    names = _all_names(link)
    return {*names, *(simple(name) for name in names)}


def _base(condition: str | None) -> str | None:
    return condition.partition(".")[0] if condition else None


def _found(pattern: str, *texts: str | None) -> bool:
    return any(text and re.search(pattern, text) for text in texts)
