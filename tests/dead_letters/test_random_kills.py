"""Random records, ends at random steps of batch, DLQ table and replay: each record stands in one place."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from tests.dead_letters.conftest import DeadLetters
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.contract import failpoints as fault_points
from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.errors import TidemarkError
from tidemark.dead_letters.selection import PayloadEdit
from tidemark.dev.producers import SampleRecord

FIXED = PayloadEdit(expression="replace(payload, '\"not a number\"', '7')")
HOPELESS = b"{\x81}"
STEPS = {
    "land": ("batch-start", "before-append", "after-append", "before-publish", "publish", "after-publish"),
    "keep": ("letters-start", "letters-merged"),
    "replay": ("replay-decided", "replay-landed", "replay-noted"),
}


@pytest.mark.timeout(600)
def test_each_record_is_a_row_or_an_open_dead_letter_once_when_any_step_is_cut_off(
    stream: Callable[..., StreamUnderTest],
    dead_letters: Callable[[StreamUnderTest], DeadLetters],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(20261)
    flow = stream(partitions=2)
    kept = dead_letters(flow)
    produced: dict[tuple[int, int], bytes | None] = {}
    ends = [0, 0]
    cut: Counter[str] = Counter()

    def produce() -> None:
        batch = []
        for _ in range(chance.randint(4, 12)):
            value = chance.choice([good(chance.randint(1, 9)), good(10), BAD, BAD, HOPELESS, None])
            partition = chance.randrange(2)
            batch.append(SampleRecord(value, key=b"k", partition=partition))
            produced[(partition, ends[partition])] = value
            ends[partition] += 1
        flow.produce(*batch)

    def run(step: str) -> None:
        if step == "land":
            flow.land()
        elif step == "keep":
            kept.keep()
        elif kept.table.exists(flow.spark):
            kept.replay(edit=FIXED)

    def cut_off(step: str) -> None:
        point = chance.choice(STEPS[step])
        fault_points.forget()
        monkeypatch.setenv(fault_points.VARIABLE, f"{point}=raise")
        try:
            run(step)
        except (TidemarkError, PySparkException):
            cut[step] += 1
            if step == "land" and chance.random() < 0.4:
                shutil.rmtree(flow.folder / "checkpoints", ignore_errors=True)
        finally:
            monkeypatch.delenv(fault_points.VARIABLE)

    for number in range(3):
        produce()
        for step in STEPS:
            if number == 0 or chance.random() < 0.7:
                cut_off(step)
            if number == 0 or chance.random() < 0.5:
                run(step)
        landed = [(p, o) for _, p, o in flow.landed()]
        assert len(landed) == len(set(landed)), "a record landed twice"
    for step in STEPS:
        run(step)

    assert set(cut) == set(STEPS), "each kind of step was cut off"
    landed = [(p, o) for _, p, o in flow.landed()]
    rows = {(row.stream_partition, row.stream_offset): row for row in kept.rows()}
    still_open = {at for at, row in rows.items() if row.status != DeadLetterStatus.RESOLVED}
    assert len(landed) == len(set(landed))
    assert len(rows) == len(kept.rows())
    assert set(landed) | still_open == {at for at, value in produced.items() if value is not None}
    assert not set(landed) & still_open
    assert still_open == {at for at, value in produced.items() if value == HOPELESS}
    assert all(bytes(row.message_payload) == produced[at] for at, row in rows.items())
