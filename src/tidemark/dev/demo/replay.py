"""The demo's replay: one dead letter is fixed and lands under its own coordinates."""

from __future__ import annotations

import shlex

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidemark.config.reading.load import load_settings
from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_ID
from tidemark.contract.errors import DataLoss
from tidemark.contract.failure_codes import FailureCode
from tidemark.dead_letters.selection import PayloadEdit, Selection
from tidemark.dead_letters.service import DeadLetters
from tidemark.dev.demo.configuration import DemoFiles
from tidemark.dev.demo.report import Narrator


def fix_and_replay(narrator: Narrator, files: DemoFiles) -> int:
    """Copy the dead letters into their table, and replay one that the subject has a fix for; how many landed.

    Raises DataLoss if its row is not in the table exactly once afterwards.
    """
    from tidemark.platform.session import get_session

    narrator.step("One dead letter, fixed and replayed")
    spark, settings = get_session("tidemark-demo"), load_settings(files.configuration)
    (stream,) = settings.streams
    dead_letters = DeadLetters.of(spark, settings, stream)
    dead_letters.catch_up()
    found = dead_letters.all()
    narrator.say(f"{found.count():,} dead letters in {dead_letters.table.facts}, each once")
    fix = files.subject.fix
    dead_letter = _to_fix(found, fix.holds) if fix is not None else None
    if fix is None or dead_letter is None:
        narrator.say("none of them can be fixed by this demo's expression", "yellow")
        return 0
    named = f"{dead_letter[records.TOPIC]}:{dead_letter[records.PARTITION]}:{dead_letter[records.OFFSET]}"
    narrator.say(f"{named}: {dead_letter['failure_message']}")
    narrator.say(bytes(dead_letter[records.PAYLOAD]).decode())
    narrator.say(
        f"tidemark dead-letters replay --stream {stream} --letter {named}"
        f" --edit {_quoted(fix.expression)} --config {files.configuration}"
    )
    selection = Selection(dead_letters=(dead_letter[DEAD_LETTER_ID],))
    done = dead_letters.replay(selection, edit=PayloadEdit(expression=fix.expression), by="demo")
    at = F.lit(True)
    for name in records.COORDINATES:
        at = at & (F.col(name) == dead_letter[name])
    columns = (*files.subject.shown, *records.COORDINATES)
    rows = spark.table(dead_letters.target.table.sql).where(at).select(*columns).collect()
    if done.resolved != 1 or len(rows) != 1:
        raise DataLoss(f"dead letter {named} was replayed, and its row is in the table {len(rows)} times")
    narrator.say(f"landed in version {done.version}: {rows[0].asDict()}", "green")
    narrator.say("its dead letter is resolved; its bytes and the edit stay in the DLQ table")
    narrator.console.print()
    return done.resolved


def _to_fix(found: DataFrame, holds: str) -> Row | None:
    violated = F.col("failure_code") == FailureCode.RULE_VIOLATED.value
    text = F.col(records.PAYLOAD).cast("string")
    return found.where(violated & text.contains(holds)).orderBy(DEAD_LETTER_ID).first()


def _quoted(expression: str) -> str:
    """Quoted for a shell, in double quotes where no character of the expression is special in them."""
    plain = not set('"$`\\!') & set(expression)
    return f'"{expression}"' if plain else shlex.quote(expression)
