"""Streams that would share a table, a topic or a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from tidemark.config.base import Section
from tidemark.config.destination import TableRef, location, table_ref
from tidemark.config.kafka import KafkaSettings
from tidemark.config.listener import Listener
from tidemark.config.reading.contradictions import destination_faults
from tidemark.config.reading.faults import Finding, KeyPath
from tidemark.config.reading.layering import TOPICS
from tidemark.config.stream import Destination, Stream

STREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def slug(stream: str) -> str:
    """The stream's name in folders, queries and labels: lower case, one kind of separator.

    >>> slug("Orders.EU")
    'orders-eu'
    """
    return re.sub(r"[^a-z0-9]+", "-", stream.lower()).strip("-")


def between_streams(
    streams: Mapping[str, Stream], *, root: Path, checkpoint_root: str | None = None
) -> Iterator[Finding]:
    yield from _names(streams)
    yield from _dead_letter_topics(streams)
    yield from _shared_tables(streams, root)
    if checkpoint_root is not None:
        checkpoints = TableRef(path=location(checkpoint_root, root=root)).identity
        for name, _, table in _tables(streams, root):
            if table.path is not None and _inside(checkpoints, table.identity):
                hint = "keep checkpoints outside the tables"
                yield ("checkpoint-root",), f"lies inside the table of stream {name}", hint


def with_listener(streams: Mapping[str, Stream], sections: Mapping[KeyPath, Section]) -> Iterator[Finding]:
    """The listener has a group of its own, reads no stream's dead letters, and feeds no stream."""
    listener, kafka = sections.get(("listener",)), sections.get(("kafka",))
    if not isinstance(listener, Listener):
        return
    if isinstance(kafka, KafkaSettings):
        try:
            listener.completed_by(kafka.consumer)
        except ValidationError as error:
            for each in error.errors():
                problem = f"with the defaults of kafka.consumer: {each['msg'].removeprefix('Value error, ')}"
                yield ("listener",), problem, "write both keys in `listener`"
    marks_group = kafka.consumer.group_id if isinstance(kafka, KafkaSettings) else None
    for name, stream in streams.items():
        if stream.dlq_topic in listener.topics:
            problem = f"names {stream.dlq_topic}, the DLQ topic of the stream {name}"
            yield ("listener", "topics"), problem, "use `tidemark dead-letters` for them"
        if stream.kafka_topic in {listener.dlq_topic_of(topic) for topic in listener.topics}:
            yield ("listener", "dlq-topic"), _read_as_records(stream.kafka_topic, name), "name another topic"
        if stream.kafka_topic in listener.topics and listener.group_id == marks_group:
            problem = f"is the group that the marks of stream {name} are committed to, for the same topic"
            yield ("listener", "group-id"), problem, "give the listener a group of its own"


def _names(streams: Mapping[str, Stream]) -> Iterator[Finding]:
    taken: dict[str, str] = {}
    for name in streams:
        at: KeyPath = (*TOPICS, name)
        if not STREAM_NAME.fullmatch(name):
            hint = "use letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first"
            yield at, "is not a valid name for a stream", hint
            continue
        first = taken.setdefault(slug(name), name)
        if first != name:
            problem = f"and {first} would share one checkpoint folder, {slug(name)}"
            yield at, problem, "rename the newer one of the two"


def _dead_letter_topics(streams: Mapping[str, Stream]) -> Iterator[Finding]:
    readers: dict[str, str] = {}
    for name, stream in streams.items():
        readers.setdefault(stream.kafka_topic, name)
    for name, stream in streams.items():
        reader = readers.get(stream.dlq_topic)
        if reader is not None and stream.dlq_topic != stream.kafka_topic:
            at: KeyPath = (*TOPICS, name, "dead-letter", "topic")
            yield at, _read_as_records(stream.dlq_topic, reader), "name another topic"


def _read_as_records(topic: str, stream: str) -> str:
    return f"dead letters would go to {topic}, which the stream {stream} reads as records"


def _shared_tables(streams: Mapping[str, Stream], root: Path) -> Iterator[Finding]:
    claimed: dict[str, tuple[str, str]] = {}
    for name, at, table in _tables(streams, root):
        for kind, ref in (("table", table), ("dead letters' table", table.dlq)):
            identity = ref.identity
            shown = f"the {kind} {ref}"
            if identity in claimed:
                other, others_kind = claimed[identity]
                topic = streams[name].kafka_topic
                same_topic = other != name and streams[other].kafka_topic == topic
                because = f", and both read {topic}: every record would land twice" if same_topic else ""
                problem = f"{shown} is the {others_kind} of stream {other} already{because}"
                yield at, problem, "one stream writes a table: give each its own"
                break
            nested = [
                f"{shown} and the {others_kind} of stream {other} lie inside each other"
                for taken, (other, others_kind) in claimed.items()
                if ref.path is not None and (_inside(identity, taken) or _inside(taken, identity))
            ]
            for problem in nested:
                yield at, problem, "put them into separate folders"
            claimed[identity] = (name, kind)
            if nested:
                break


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _tables(streams: Mapping[str, Stream], root: Path) -> Iterator[tuple[str, KeyPath, TableRef]]:
    """The stream, the key and the table of every destination that has no fault of its own."""
    for name, stream in streams.items():
        destinations: list[tuple[KeyPath, Destination | None]] = [
            (("destination",), stream.destination),
            (("landing", "destination"), stream.landing.destination if stream.landing else None),
        ]
        for part, destination in destinations:
            at: KeyPath = (*TOPICS, name, *part)
            if destination is not None and not any(True for _ in destination_faults(destination, at)):
                yield name, at, table_ref(destination, root=root)
