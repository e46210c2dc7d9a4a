"""Delta's table properties: those a table is created with, and those that break the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyspark.sql import types as T

from tidemark.config.stream import Destination
from tidemark.contract.errors import ConfigError, summary_of_error
from tidemark.sink.statistics import PROPERTY, statistics_property

OWN = {"delta.isolationLevel": "Serializable", "delta.checkpointInterval": "20"}
LOG_RETENTION = "delta.logRetentionDuration"
TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
SHORTEST_LOG_RETENTION_DAYS = 7
_DAYS = {
    "second": 1 / 86400,
    "minute": 1 / 1440,
    "hour": 1 / 24,
    "day": 1.0,
    "week": 7.0,
    "month": 30.0,
    "year": 365.0,
}
_REFUSING = ("IllegalArgument", "UnsupportedOperation", "Parse", "[DELTA_", "DeltaTableFeature")


def properties_of(destination: Destination, schema: T.StructType) -> dict[str, str]:
    """The properties of a new table; those of the configuration win, in any letter case."""
    statistics = statistics_property(destination, schema)
    ours = {**OWN, **({PROPERTY: statistics} if statistics is not None else {})}
    written = {name.lower() for name in destination.properties}
    return {**{n: v for n, v in ours.items() if n.lower() not in written}, **destination.properties}


def forgetful(properties: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Properties under which Delta forgets parts of the ledger while they are needed: name, reason, hint. In
    the hint, `{table}` stands for the table.
    """
    for name, value in properties.items():
        if name.lower() == TRANSACTION_RETENTION.lower():
            why = "once a transaction expires, an old writer would not be fenced any more"
            yield name, why, f"ALTER TABLE {{table}} UNSET TBLPROPERTIES ('{name}')"
        elif name.lower() == LOG_RETENTION.lower() and _in_days(value) < SHORTEST_LOG_RETENTION_DAYS:
            why = f"it keeps its log for {value} only, and after a longer outage the marks are gone"
            yield name, why, f"set {name} to at least 'interval {SHORTEST_LOG_RETENTION_DAYS} days'"


def refused(error: Exception, destination: Destination) -> ConfigError | None:
    """A ConfigError that names the properties in Delta's error; None where there are none."""
    about = {name: destination.properties[name] for name in named_in(error, destination)}
    if not about:
        return None
    listed = ", ".join(f"{name} = {value}" for name, value in about.items())
    return ConfigError(
        f"Delta refuses destination.properties {listed}: {summary_of_error(error)}", "correct or remove it"
    )


def named_in(error: Exception, destination: Destination) -> list[str]:
    """The configured properties that an error names. Delta names some by their values alone."""
    text = summary_of_error(error)
    if not any(sign in type(error).__name__ or sign in text for sign in _REFUSING):
        return []
    by_name = [name for name in destination.properties if name.lower() in text.lower()]
    return by_name or [name for name, value in destination.properties.items() if _has_word(text, value)]


def _has_word(text: str, word: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _in_days(interval: str) -> float:
    words = interval.lower().replace("interval", "").split()
    try:
        return sum(
            float(n) * _DAYS[unit.rstrip("s")] for n, unit in zip(words[::2], words[1::2], strict=True)
        )
    except (ValueError, KeyError):
        return 0.0
