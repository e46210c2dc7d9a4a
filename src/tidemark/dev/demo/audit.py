"""The demo's check: what was produced against what is really in the table and in the DLQ topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tidemark.contract import records
from tidemark.contract.errors import RetriableError
from tidemark.dev.producers import admin
from tidemark.dev.samples import SampleEvent

_PREFIX = "__dlq.errors."
_SILENCE_S = 30.0


class Coordinates(NamedTuple):
    topic_id: str
    partition: int
    offset: int


class LandedRow(NamedTuple):
    at: Coordinates
    day: date | None


class DeadLetter(NamedTuple):
    at: Coordinates
    code: str
    stage: str
    message: str
    value: bytes | None


@dataclass(frozen=True)
class AuditResult:
    """What became of the produced records, counted by coordinates.

    `duplicated` counts rows beyond the first of a record, records that both landed and were rejected, and
    coordinates that nobody produced; `lost` those found nowhere. `published_again` is no fault: after
    a kill between publishing and the next commit, a dead letter is published twice, to be keyed by its
    coordinates.
    """

    produced: int
    landed: int
    rejected: int
    skipped: int
    lost: int
    duplicated: int
    misjudged: int
    altered: int
    published_again: int

    @property
    def sound(self) -> bool:
        return not (self.lost or self.duplicated or self.misjudged or self.altered)

    def line(self) -> str:
        return (
            f"produced {self.produced} = landed {self.landed} + rejected {self.rejected}"
            f" + skipped {self.skipped}, lost {self.lost}, duplicated {self.duplicated}"
        )


def judge(
    produced: Mapping[Coordinates, SampleEvent], rows: Iterable[LandedRow], dead_letters: Sequence[DeadLetter]
) -> AuditResult:
    """Hold the table and the DLQ topic against what was produced. Tombstones should be in neither.

    `misjudged`: good records that were rejected, bad ones and tombstones that landed. `altered`: dead
    letters whose bytes are not the produced ones.
    """
    in_table = Counter(row.at for row in rows)
    in_topic = {dead_letter.at: dead_letter for dead_letter in dead_letters}
    tombstones = {at for at, event in produced.items() if event.record.value is None}
    found = in_table.keys() | in_topic.keys()
    should_land = {at for at, event in produced.items() if event.fault is None} - tombstones
    twice = sum(in_table.values()) - len(in_table) + len(in_table.keys() & in_topic.keys())
    return AuditResult(
        produced=len(produced),
        landed=len(in_table),
        rejected=len(in_topic),
        skipped=len(tombstones - found),
        lost=len(produced.keys() - tombstones - found),
        duplicated=twice + len(found - produced.keys()),
        misjudged=len(should_land & in_topic.keys()) + len((produced.keys() - should_land) & in_table.keys()),
        altered=sum(
            dead_letter.value != produced[dead_letter.at].record.value
            for dead_letter in dead_letters
            if dead_letter.at in produced
        ),
        published_again=len(dead_letters) - len(in_topic),
    )


def landed_rows(table: Path, *, day: str = "cob_date") -> list[LandedRow]:
    """Every row of the table, by its coordinates; `day` is an expression. Starts Spark unless it runs."""
    from pyspark.sql import functions as F

    from tidemark.platform.session import get_session

    landed = get_session("tidemark-demo").read.format("delta").load(str(table))
    return [
        LandedRow(Coordinates(topic_id, partition, offset), on)
        for topic_id, partition, offset, on in landed.select(*records.COORDINATES, F.expr(day)).collect()
    ]


def dead_letters_of(bootstrap: str, topic: str) -> list[DeadLetter]:
    """Every record of the DLQ topic, repeats included. Raises RetriableError if the broker falls silent."""
    partitions = admin(bootstrap).list_topics(timeout=30).topics.get(topic)
    if partitions is None:
        return []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tidemark-demo-audit",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        expected = 0
        start = []
        for partition in partitions.partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            expected += high - low
            start.append(TopicPartition(topic, partition, low))
        consumer.assign(start)
        dead_letters: list[DeadLetter] = []
        while len(dead_letters) < expected:
            messages = consumer.consume(min(1000, expected - len(dead_letters)), _SILENCE_S)
            if not messages:
                raise RetriableError(
                    f"the broker gave {len(dead_letters)} of {expected} dead letters, then none"
                )
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                dead_letters.append(_dead_letter(message))
        return dead_letters
    finally:
        consumer.close()


def _dead_letter(message: Message) -> DeadLetter:
    told: dict[str, str] = {}
    for name, text in dict(message.headers() or ()).items():
        if name.startswith(_PREFIX) and text is not None:
            told[name.removeprefix(_PREFIX)] = (
                text if isinstance(text, str) else text.decode("utf-8", "replace")
            )
    return DeadLetter(
        at=Coordinates(told["topic.id"], int(told["partition"]), int(told["offset"])),
        code=told["category"],
        stage=told.get("stage", ""),
        message=told.get("message", ""),
        value=message.value(),
    )
