"""The demo's check: compares the produced records with the table and the DLQ topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tidemark.contract import records
from tidemark.contract.dead_letters import ERRORS_PREFIX
from tidemark.contract.errors import RetriableError
from tidemark.dev.producers import admin
from tidemark.dev.samples import SampleEvent

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
    """The produced records by outcome, counted by coordinates.

    `duplicated` counts rows beyond the first of a record, records that both landed and were rejected, and
    coordinates that were never produced; `lost` counts records found nowhere. `misjudged`: good records that
    were rejected, bad ones and tombstones that landed. `altered`: dead letters whose bytes are not the produced
    ones. `published_again` is not a fault: after a kill between publishing and the next commit, a dead letter
    is published twice; readers identify it by its coordinates.
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
    """Compare the table and the DLQ topic with the produced records. Tombstones should be in neither."""
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
    """Every row of the table, by its coordinates; `day` is an SQL expression. Starts Spark if necessary."""
    from pyspark.sql import functions as F

    from tidemark.platform.session import get_session

    landed = get_session("tidemark-demo").read.format("delta").load(str(table))
    return [
        LandedRow(Coordinates(topic_id, partition, offset), on)
        for topic_id, partition, offset, on in landed.select(*records.COORDINATES, F.expr(day)).collect()
    ]


def dead_letters_of(bootstrap: str, topic: str) -> list[DeadLetter]:
    """Every record of the DLQ topic, with repeats. Raises RetriableError if the broker stops answering."""
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
        bounds = {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            for partition in partitions.partitions
        }
        expected = sum(high - low for low, high in bounds.values())
        consumer.assign([TopicPartition(topic, partition, low) for partition, (low, _) in bounds.items()])
        dead_letters: list[DeadLetter] = []
        while len(dead_letters) < expected:
            messages = consumer.consume(min(1000, expected - len(dead_letters)), _SILENCE_S)
            if not messages:
                raise RetriableError(f"the broker sent {len(dead_letters)} of {expected} dead letters")
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                dead_letters.append(_dead_letter(message))
        return dead_letters
    finally:
        consumer.close()


def _dead_letter(message: Message) -> DeadLetter:
    errors = {
        name.removeprefix(ERRORS_PREFIX): text if isinstance(text, str) else text.decode("utf-8", "replace")
        for name, text in dict(message.headers() or ()).items()
        if name.startswith(ERRORS_PREFIX) and text is not None
    }
    return DeadLetter(
        at=Coordinates(errors["topic.id"], int(errors["partition"]), int(errors["offset"])),
        code=errors["category"],
        stage=errors.get("stage", ""),
        message=errors.get("message", ""),
        value=message.value(),
    )
