"""Streams that would get into each other's way: one table, one topic, one name for two of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidemark.config.destination import TableRef, location, table_ref
from tidemark.config.listener import Listener
from tidemark.config.reading.contradictions import destination_faults
from tidemark.config.reading.faults import KeyPath
from tidemark.config.reading.shape import Finding
from tidemark.config.stream import Destination, Stream

TOPICS: KeyPath = ("connector", "topics")
STREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def slug(stream: str) -> str:
    """The stream's name as a folder, a query and a label have it: lower case, one kind of separator.

    >>> slug("Orders.EU")
    'orders-eu'
    """
    return re.sub(r"[^a-z0-9]+", "-", stream.lower()).strip("-")


def between_streams(
    streams: Mapping[str, Stream], *, root: Path, checkpoint_root: str | None = None
) -> Iterator[Finding]:
    yield from _names(streams)
    yield from _dead_letter_topics(streams)
    yield from _tables(streams, root, checkpoint_root)


def with_listener(
    streams: Mapping[str, Stream], listener: Listener, group_id: str | None
) -> Iterator[Finding]:
    """The listener has a group of its own, reads no stream's dead letters, and feeds no stream."""
    for name, stream in streams.items():
        if stream.dlq_topic in listener.topics:
            problem = f"names {stream.dlq_topic}, where the stream {name} puts its dead letters"
            yield ("listener", "topics"), problem, "use `tidemark dead-letters` for them"
        if stream.kafka_topic in {listener.dlq_topic_of(topic) for topic in listener.topics}:
            problem = (
                f"dead letters would go to {stream.kafka_topic}, which the stream {name} reads as records"
            )
            yield ("listener", "dlq-topic"), problem, "name a topic of its own"
        if stream.kafka_topic in listener.topics and listener.group_id == group_id:
            problem = f"is the group that the marks of stream {name} are committed to, for the same topic"
            yield ("listener", "group-id"), problem, "give the listener a group of its own"


def _names(streams: Mapping[str, Stream]) -> Iterator[Finding]:
    taken: dict[str, str] = {}
    for name in streams:
        at: KeyPath = (*TOPICS, name)
        if not STREAM_NAME.fullmatch(name):
            hint = "use dead letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first"
            yield at, "is no legal name for a stream", hint
            continue
        first = taken.setdefault(slug(name), name)
        if first != name:
            problem = f"and {first} would share one checkpoint folder, {slug(name)}"
            yield at, problem, "rename the newer one of the two"


def _dead_letter_topics(streams: Mapping[str, Stream]) -> Iterator[Finding]:
    read: dict[str, str] = {}
    for name, stream in streams.items():
        read.setdefault(stream.kafka_topic, name)
    for name, stream in streams.items():
        reader = read.get(stream.dlq_topic)
        if reader is not None and stream.dlq_topic != stream.kafka_topic:
            problem = (
                f"dead letters would go to {stream.dlq_topic}, which the stream {reader} reads as records"
            )
            yield (*TOPICS, name, "dead-letter", "topic"), problem, "name a topic of its own"


def _tables(streams: Mapping[str, Stream], root: Path, checkpoint_root: str | None) -> Iterator[Finding]:
    claimed: dict[str, tuple[str, str]] = {}
    for name, stream in streams.items():
        for part, destination in _destinations(stream):
            at: KeyPath = (*TOPICS, name, *part)
            if any(True for _ in destination_faults(destination, at)):
                continue
            table = table_ref(destination, root=root)
            for what, ref in (("table", table), ("dead letters' table", table.dlq)):
                found = list(_claim(ref, what, name, stream, at, streams, claimed))
                yield from found
                if found:
                    break
            if checkpoint_root is not None and table.path is not None:
                checkpoints = TableRef(path=location(checkpoint_root, root=root)).identity
                if _inside(checkpoints, table.identity):
                    hint = "keep checkpoints outside the tables"
                    yield ("checkpoint-root",), f"lies inside the table of stream {name}", hint


def _claim(
    ref: TableRef,
    what: str,
    name: str,
    stream: Stream,
    at: KeyPath,
    streams: Mapping[str, Stream],
    claimed: dict[str, tuple[str, str]],
) -> Iterator[Finding]:
    identity = ref.identity
    if identity in claimed:
        other, others_what = claimed[identity]
        same_topic = other != name and streams[other].kafka_topic == stream.kafka_topic
        because = f", and both read {stream.kafka_topic}: every record would land twice" if same_topic else ""
        problem = f"the {what} {ref} is the {others_what} of stream {other} already{because}"
        yield at, problem, "one stream writes a table: give each its own"
        return
    for other_identity, (other, others_what) in claimed.items():
        if ref.path is not None and (_inside(identity, other_identity) or _inside(other_identity, identity)):
            problem = f"the {what} {ref} and the {others_what} of stream {other} lie inside each other"
            yield at, problem, "put them beside each other"
    claimed[identity] = (name, what)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _destinations(stream: Stream) -> Iterator[tuple[KeyPath, Destination]]:
    if stream.destination is not None:
        yield ("destination",), stream.destination
    if stream.landing is not None:
        yield ("landing", "destination"), stream.landing.destination
