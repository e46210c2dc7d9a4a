"""The demo's replay: one dead letter is understood, mended and landed under its own coordinates."""

from __future__ import annotations

import uuid

from pyspark.sql import functions as F

from tidemark.config.load import load_settings
from tidemark.contract import records
from tidemark.contract.dead_letters import LETTER_ID
from tidemark.contract.errors import DataLoss
from tidemark.contract.failure_codes import FailureCode
from tidemark.dev.demo_configuration import DemoFiles
from tidemark.dev.demo_report import Narrator
from tidemark.pipeline.dead_letters import keep_letters, letter_target
from tidemark.pipeline.replay import replay
from tidemark.pipeline.replay_choice import Choice, Edit
from tidemark.sink.dead_letter_table import LetterTable
from tidemark.source.topics import KafkaAdmin

_MEND = Edit(expression="""regexp_replace(payload, '"amount": *-1', '"amount": 1')""")


def mend_and_replay(narrator: Narrator, files: DemoFiles) -> None:
    """Keep the dead letters in their table, and mend one JSON event whose amount is negative.

    Raises DataLoss if its row is not in the table once afterwards.
    """
    from tidemark.platform.session import get_session

    narrator.step("One dead letter, understood, mended and replayed")
    spark, settings = get_session("tidemark-demo"), load_settings(files.configuration)
    (stream,) = settings.streams
    target = letter_target(spark, settings, stream, run=uuid.uuid4().hex)
    keep_letters(spark, settings, target)
    table = LetterTable(target.table)
    letters = table.letters(spark)
    narrator.say(f"{letters.count():,} dead letters in {table.facts}, each once")
    json_events = letters.where(
        (F.col("failure_code") == FailureCode.RULE_VIOLATED.value)
        & F.col(records.PAYLOAD).cast("string").startswith("{")
    )
    letter = json_events.orderBy(LETTER_ID).first()
    if letter is None:
        narrator.say("none of them can be mended by this demo's expression", "yellow")
        return
    named = f"{letter[records.TOPIC]}:{letter[records.PARTITION]}:{letter[records.OFFSET]}"
    narrator.say(f"{named}: {letter['failure_message']}")
    narrator.say(bytes(letter[records.PAYLOAD]).decode())
    narrator.say(
        f"tidemark dead-letters replay --stream {stream} --letter {named} --edit {str(_MEND)!r}"
        f" --config {files.configuration}"
    )
    done = replay(
        spark, KafkaAdmin(settings.kafka), target, Choice(letters=(letter[LETTER_ID],)), edit=_MEND, by="demo"
    )
    at = F.lit(True)
    for name in records.COORDINATES:
        at = at & (F.col(name) == letter[name])
    rows = spark.table(target.table.sql).where(at).select("user_id", "amount", *records.COORDINATES).collect()
    if done.resolved != 1 or len(rows) != 1:
        raise DataLoss(f"letter {named} was replayed, and its row is in the table {len(rows)} times")
    narrator.say(f"landed in version {done.version}: {rows[0].asDict()}", "green")
    narrator.say("its letter is resolved; its bytes and the edit stay in the DLQ table")
    narrator.console.print()
