"""What is in a Delta table and on a topic, read without Spark, which takes a hundred times as long for a few rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition


def rows_of(table: Path, *columns: str) -> list[tuple[Any, ...]] | None:
    """These columns of each row of the newest version, by the table's log and its Parquet files.

    None where a row is not simply what a file says: with deletion vectors, mapped or partition columns; and where
    the log is not there from its first commit on.
    """
    files: dict[str, None] = {}
    commits = sorted((table / "_delta_log").glob("*.json"))
    if not commits or [int(commit.stem) for commit in commits if commit.stem.isdigit()] != list(
        range(len(commits))
    ):
        return None
    for commit in commits:
        for action in map(json.loads, commit.read_text().splitlines()):
            if removed := action.get("remove"):
                files.pop(removed["path"], None)
            if added := action.get("add"):
                if added.get("deletionVector") or ":" in added["path"]:
                    return None
                files[added["path"]] = None
            if about := action.get("metaData"):
                mapped = about["configuration"].get("delta.columnMapping.mode", "none") != "none"
                if mapped or set(columns) & set(about["partitionColumns"]):
                    return None
    return [row for file in files for row in _rows_in(table / unquote(file), columns)]


def _rows_in(file: Path, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    found = pq.ParquetFile(file)
    there = found.read(columns=[column for column in columns if column in found.schema_arrow.names])
    for row in there.to_pylist():
        yield tuple(row.get(column) for column in columns)


def messages_on(bootstrap: str, topic: str) -> list[Message]:
    """All messages of the topic, each partition's in order; none where there is no topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # How long the broker waits for more where there is nothing.
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        known = consumer.list_topics(timeout=30).topics
        if topic not in known:
            return []
        left = set(known[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        messages = []
        while left:
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.remove(message.partition())
            else:
                raise KafkaException(error)
        return messages
    finally:
        consumer.close()
