"""The records of a demo: sample events of every format, or one of the sample sets of `fixtures/sets`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from tidemark.config.decoding import Format
from tidemark.contract.errors import UsageError
from tidemark.dev.sample_sets import SETS
from tidemark.dev.samples import AVRO_SCHEMA, SampleEvent, sample_events

_SETS: Final = Path(__file__).parents[4] / "fixtures" / "sets"
_DAYS: Final = 3
_DDL: Final = (
    "user_id STRING NOT NULL, event_type STRING, amount DECIMAL(10,2), cob DATE, event_time TIMESTAMP"
)


@dataclass(frozen=True)
class Fix:
    """Fixes a dead letter of code RULE_VIOLATED whose text contains `holds`."""

    holds: str
    expression: str


@dataclass(frozen=True)
class DemoSubject:
    """A stream, and records with a known outcome. `day` is an expression over its table, `report` the columns of
    a report source, `body` the stream's section of the configuration, `files` the schema files that it names.
    """

    stream: str
    events: Callable[[int], Iterator[SampleEvent]]
    description: str
    day: str
    report: Mapping[str, str]
    shown: tuple[str, ...]
    fix: Fix | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        return str(self.body["kafka-topic"])

    @property
    def path(self) -> str:
        return str(self.body["destination"]["path"])


def _user_events(records: int) -> Iterator[SampleEvent]:
    return sample_events(
        records,
        # A small number of records has some of every kind too.
        bad_share=max(0.01, min(0.1, 100 / records)),
        tombstone_share=max(0.001, 10 / records),
        every=timedelta(days=_DAYS) / records,
    )


USER_EVENTS: Final = DemoSubject(
    stream="user-events",
    body={
        "kafka-topic": "user.events.v1",
        "supported-formats": ["JSON", "CSV", "AVRO"],
        "schema": {"file": "schemas/user-events.ddl"},
        "avro": {"writer-schema": "schemas/user-events.avsc"},
        "cob": {"field": "cob", "column": "cob_date"},
        "rules": [
            {"name": "user_id_required", "expr": "length(trim(user_id)) > 0", "message": "user_id required"},
            {"name": "amount_not_negative", "expr": "amount >= 0", "message": "amount must not be negative"},
        ],
        "destination": {"path": "events/user-events", "partition-columns": ["cob_date"]},
    },
    files={
        "schemas/user-events.ddl": _DDL + "\n",
        "schemas/user-events.avsc": json.dumps(AVRO_SCHEMA, indent=2) + "\n",
    },
    events=_user_events,
    description="JSON, CSV and Avro, some of them bad in every way there is, some tombstones",
    day="cob_date",
    report={"account": "user_id", "value": "amount", "at": "event_time"},
    shown=("user_id", "amount"),
    fix=Fix('"amount": -1', """regexp_replace(payload, '"amount": *-1', '"amount": 1')"""),
)
"""The stream of `conf/tidemark.yml`."""


def _of_set(name: str, form: Format) -> Callable[[int], Iterator[SampleEvent]]:
    return lambda records: (SampleEvent(each.record, form, each.code) for each in SETS[name](records))


_OF_SETS: Final = (
    DemoSubject(
        "clickstream",
        events=_of_set("clickstream", Format.JSON),
        description="page views as JSON; every tenth is bad",
        day="to_date(seen_at)",
        report={"account": "session", "at": "seen_at"},
        shown=("event_id", "url"),
        fix=Fix("ftp://", "replace(payload, 'ftp://', 'https://')"),
    ),
    DemoSubject(
        "trades",
        events=_of_set("trades", Format.CSV),
        description="trades as CSV, with decimals and close-of-business dates; every tenth is bad",
        day="cob_date",
        report={"account": "isin", "value": "notional", "at": "executed_at"},
        shown=("trade_id", "side"),
        fix=Fix(";X;", "replace(payload, ';X;', ';B;')"),
    ),
    DemoSubject(
        "telemetry",
        events=_of_set("telemetry", Format.AVRO),
        description="sensor readings as Avro of two schema versions; every tenth is bad",
        day="to_date(at)",
        report={"account": "device", "value": "value", "at": "at"},
        shown=("device", "value"),
    ),
)


def subject_of(name: str | None) -> DemoSubject:
    """The sample set of this name; without one, the sample events of every format.

    Raises UsageError for an unknown name, and outside a clone of the repository, which has the sets.
    """
    if name is None:
        return USER_EVENTS
    known = next((subject for subject in _OF_SETS if subject.stream == name), None)
    if known is None:
        raise UsageError(
            f"there is no sample set {name}", f"there are {', '.join(each.stream for each in _OF_SETS)}"
        )
    folder = _SETS / name
    if not folder.is_dir():
        raise UsageError(
            f"the sample set {name} is not in {folder}", "clone the repository, and run the demo there"
        )
    schemas = sorted(path for path in folder.iterdir() if path.suffix in (".avsc", ".ddl", ".json"))
    return replace(
        known,
        body=yaml.safe_load((folder / "stream.yml").read_text(encoding="utf-8")),
        files={path.name: path.read_text(encoding="utf-8") for path in schemas},
    )
