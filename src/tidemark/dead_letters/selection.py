"""Selections of dead letters, and the payload edits that fix their values before a replay."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_ID, OPEN, DeadLetterStatus
from tidemark.contract.errors import UsageError
from tidemark.platform.local_rows import rows_of
from tidemark.transform.expressions import unstable, unstable_as_analysed

MOST_PATCHED = 1000
PAYLOAD_TEXT = "payload"
_COORDINATES = re.compile(r"^(?P<topic>.+):(?P<partition>\d+):(?P<offset>\d+)$")


@dataclass(frozen=True)
class Selection:
    """Dead letters that fulfil every criterion that is set; by default those that are new."""

    codes: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    dead_letters: tuple[str, ...] = ()
    statuses: tuple[DeadLetterStatus, ...] = ()
    limit: int | None = None

    def of(self, dead_letters: DataFrame) -> DataFrame:
        """In and out: `DeadLetterTable.dead_letters`. Under a limit in order of failure, the oldest first."""
        conditions: list[Column] = []
        if self.codes:
            conditions.append(F.col("failure_code").isin(*self.codes))
        if self.since is not None:
            conditions.append(F.col("failed_at") >= F.lit(self.since))
        if self.until is not None:
            conditions.append(F.col("failed_at") < F.lit(self.until))
        if self.dead_letters:
            conditions.append(_named(dead_letters, self.dead_letters))
        named = OPEN if self.dead_letters else (DeadLetterStatus.NEW,)
        conditions.append(F.col("status").isin(*[s.value for s in self.statuses or named]))
        chosen = dead_letters
        for condition in conditions:
            chosen = chosen.where(condition)
        if self.limit is not None:
            chosen = chosen.orderBy("failed_at", DEAD_LETTER_ID).limit(self.limit)
        return chosen


@dataclass(frozen=True)
class PayloadEdit:
    """Fixes values by a SQL expression, or by a JSON merge patch (RFC 7386). Exactly one of the two is set."""

    expression: str | None = None
    patch: Any | None = None

    @classmethod
    def to(cls, text: str) -> PayloadEdit:
        """Replaces the value by this text, as a readable literal.

        Escapes `${…}`, which Spark would replace with a setting or an environment variable, even within quotes.
        """
        escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
        return cls(expression=f"'{escaped}'")

    def __str__(self) -> str:
        return self.expression if self.expression is not None else json.dumps(self.patch, ensure_ascii=False)

    def of(self, dead_letters: DataFrame) -> DataFrame:
        """The dead letters with fixed values. The expression may use `payload` (the value as text), and every
        column of a dead letter.

        Raises UsageError for an expression that is invalid or not deterministic, and for a patch of more
        than 1,000 dead letters or of a value that is not JSON, which it names.
        """
        if self.expression is not None:
            return self._evaluated(dead_letters, self.expression)
        return self._patched(dead_letters)

    def _evaluated(self, dead_letters: DataFrame, expression: str) -> DataFrame:
        names = frozenset([*(name.lower() for name in dead_letters.columns), PAYLOAD_TEXT])
        faults = unstable(expression, names)
        if faults:
            raise UsageError(f"--edit {expression}: {'; '.join(faults)}")
        text = dead_letters.withColumn(PAYLOAD_TEXT, F.col(records.PAYLOAD).cast("string"))
        try:
            edited = text.withColumn(records.PAYLOAD, F.expr(expression).cast("string").cast("binary"))
            edited.schema  # noqa: B018  # analyses it, so that a wrong expression is reported before anything runs
            empty = dead_letters.sparkSession.createDataFrame([], text.schema)
            faults = list(unstable_as_analysed({"--edit": expression}, empty).values())
        except Exception as error:
            raise UsageError(
                f"--edit {expression}: {str(error).splitlines()[0]}",
                "a SQL expression over `payload`, such as replace(payload, 'usr', 'user')",
            ) from error
        if faults:
            raise UsageError(f"--edit {expression}: {faults[0]}")
        return edited.drop(PAYLOAD_TEXT)

    def _patched(self, dead_letters: DataFrame) -> DataFrame:
        rows = dead_letters.select(DEAD_LETTER_ID, records.PAYLOAD).limit(MOST_PATCHED + 1).collect()
        if len(rows) > MOST_PATCHED:
            raise UsageError(
                f"a patch file is for {MOST_PATCHED} dead letters at most",
                "choose fewer, or use a SQL expression with --edit",
            )
        values = [
            (row[DEAD_LETTER_ID], json.dumps(merge_patch(_json(row), self.patch)).encode()) for row in rows
        ]
        edited = rows_of(dead_letters.sparkSession, values, f"{DEAD_LETTER_ID} STRING, _edited BINARY")
        return (
            dead_letters.join(edited, DEAD_LETTER_ID)
            .withColumn(records.PAYLOAD, F.col("_edited"))
            .drop("_edited")
        )


def edited(dead_letters: DataFrame, edit: PayloadEdit | None) -> DataFrame:
    """Applies the edit: fixed values, and the edit's text in the column `edit`; NULL without one."""
    fixed = dead_letters if edit is None else edit.of(dead_letters)
    return fixed.withColumn("edit", F.lit(None if edit is None else str(edit)).cast("string"))


def read_dead_letters(file: Path) -> tuple[str, ...]:
    """Dead letters named in a file, one a line: an id, or `topic:partition:offset`. Raises UsageError."""
    names = []
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        name = line.strip()
        if name and not name.startswith("#"):
            if not _COORDINATES.match(name):
                raise UsageError(f"{file}, line {number}: `{name}` is not topic:partition:offset")
            names.append(name)
    return tuple(names)


def _named(dead_letters: DataFrame, names: Sequence[str]) -> Column:
    wrong = [name for name in names if not _COORDINATES.match(name)]
    if wrong:
        raise UsageError(
            f"there is no dead letter `{wrong[0]}`: it is not topic:partition:offset",
            "tidemark dead-letters list shows the ids",
        )
    by_topic = F.concat_ws(":", records.TOPIC, records.PARTITION, records.OFFSET)
    return F.col(DEAD_LETTER_ID).isin(*names) | by_topic.isin(*names)


def _json(row: Row) -> Any:
    try:
        return json.loads(bytes(row[records.PAYLOAD] or b""))
    except ValueError as error:
        raise UsageError(
            f"dead letter {row[DEAD_LETTER_ID]} is not JSON, so it cannot be patched: {error}",
            "fix it with a SQL expression: --edit",
        ) from error


def merge_patch(value: Any, patch: Any) -> Any:
    """`value` with `patch` merged into it, by RFC 7386: null removes a member."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), change)
    return merged
