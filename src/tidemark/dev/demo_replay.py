"""The demo's replay: one dead letter is understood, mended and landed under its own coordinates."""

from __future__ import annotations

import shlex

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidemark.config.load import load_settings
from tidemark.contract import records
from tidemark.contract.dead_letters import LETTER_ID
from tidemark.contract.errors import DataLoss
from tidemark.contract.failure_codes import FailureCode
from tidemark.dead_letters.selection import Choice, Edit
from tidemark.dead_letters.service import DeadLetters
from tidemark.dev.demo_configuration import DemoFiles
from tidemark.dev.demo_report import Narrator


def mend_and_replay(narrator: Narrator, files: DemoFiles) -> None:
    """Keep the dead letters in their table, and mend one that its subject knows how to mend.

    Raises DataLoss if its row is not in the table once afterwards.
    """
    from tidemark.platform.session import get_session

    narrator.step("One dead letter, understood, mended and replayed")
    spark, settings = get_session("tidemark-demo"), load_settings(files.configuration)
    (stream,) = settings.streams
    dead_letters = DeadLetters.of(spark, settings, stream)
    dead_letters.catch_up()
    letters = dead_letters.all()
    narrator.say(f"{letters.count():,} dead letters in {dead_letters.table.facts}, each once")
    mend = files.subject.mend
    letter = _to_mend(letters, mend.holds) if mend is not None else None
    if mend is None or letter is None:
        narrator.say("none of them can be mended by this demo's expression", "yellow")
        return
    named = f"{letter[records.TOPIC]}:{letter[records.PARTITION]}:{letter[records.OFFSET]}"
    narrator.say(f"{named}: {letter['failure_message']}")
    narrator.say(bytes(letter[records.PAYLOAD]).decode())
    narrator.say(
        f"tidemark dead-letters replay --stream {stream} --letter {named}"
        f" --edit {_quoted(mend.expression)} --config {files.configuration}"
    )
    choice, edit = Choice(letters=(letter[LETTER_ID],)), Edit(expression=mend.expression)
    done = dead_letters.replay(choice, edit=edit, by="demo")
    at = F.lit(True)
    for name in records.COORDINATES:
        at = at & (F.col(name) == letter[name])
    columns = (*files.subject.shown, *records.COORDINATES)
    rows = spark.table(dead_letters.target.table.sql).where(at).select(*columns).collect()
    if done.resolved != 1 or len(rows) != 1:
        raise DataLoss(f"letter {named} was replayed, and its row is in the table {len(rows)} times")
    narrator.say(f"landed in version {done.version}: {rows[0].asDict()}", "green")
    narrator.say("its letter is resolved; its bytes and the edit stay in the DLQ table")
    narrator.console.print()


def _to_mend(letters: DataFrame, holds: str) -> Row | None:
    violated = F.col("failure_code") == FailureCode.RULE_VIOLATED.value
    text = F.col(records.PAYLOAD).cast("string")
    return letters.where(violated & text.contains(holds)).orderBy(LETTER_ID).first()


def _quoted(expression: str) -> str:
    """For a shell: in double quotes where they mean nothing more than in SQL."""
    plain = not set('"$`\\!') & set(expression)
    return f'"{expression}"' if plain else shlex.quote(expression)
