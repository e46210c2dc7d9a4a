"""Many streams in one application, watched from outside: their start, what they cost idle, and one that fails."""

from __future__ import annotations

import time

from landing import Bench, Found
from writer import Writer

_FIRST = 1_000
"""Records of a stream before its start."""
_LONGEST_S = 900.0
_PROCESSING = {"batch-size": 1}


def streams(bench: Bench) -> dict[str, Found]:
    """One application of more and more streams: until each has landed its first record, and idle."""
    bench.stop_spark()
    return {f"{count}": _running(bench, count) for count in bench.sizes.streams}


def _running(bench: Bench, count: int) -> Found:
    topics = _topics(bench, count)
    with Writer(bench.bootstrap, bench.folder / f"streams-{count}", topics, _PROCESSING) as writer:
        writer.start()
        landed = writer.until_landed(1, seconds=_LONGEST_S)
        writer.until_landed(_FIRST, seconds=_LONGEST_S)
        began = writer.cpu_seconds()
        idle = _idle(writer, bench.sizes.idle_s)
        return {
            "all_landed_s": landed,
            "start_cpu_s": began,
            "idle_cpu_s_a_minute": idle,
            "memory_mb": writer.memory() / 1e6,
            "threads": writer.threads(),
            "connections": writer.connections(),
        }


def _idle(writer: Writer, seconds: float) -> float:
    """CPU seconds a minute of streams that have no data, once the compilers have come to rest."""
    time.sleep(2 * seconds)
    before = writer.cpu_seconds()
    time.sleep(seconds)
    return (writer.cpu_seconds() - before) / seconds * 60


def failing_stream(bench: Bench) -> dict[str, Found]:
    """Streams of which one cannot write, as a file is where its table's folder should be, and the same without.

    Of the others: until they have landed their first record, and until they have landed what comes later.
    """
    bench.stop_spark()
    count = bench.sizes.beside_a_failing_one
    return {
        f"{count} streams, {failing} of them fails": _others(bench, count, failing=failing)
        for failing in (0, 1)
    }


def _others(bench: Bench, count: int, *, failing: int) -> Found:
    topics = _topics(bench, count)
    good = topics[failing:]
    folder = bench.folder / f"failing-{failing}-of-{count}"
    with Writer(bench.bootstrap, folder, topics, _PROCESSING) as writer:
        for topic in topics[:failing]:
            writer.table(topic).write_text("no folder")
        writer.start()
        landed = writer.until_landed(1, topics=good, seconds=_LONGEST_S)
        writer.until_landed(_FIRST, topics=good, seconds=_LONGEST_S)
        for topic in good:
            bench.send(topic, _FIRST)
        later = writer.until_landed(2 * _FIRST, topics=good, seconds=_LONGEST_S)
        return {
            "others_landed_s": landed,
            "others_landed_later_s": later,
            "idle_cpu_s_a_minute": _idle(writer, bench.sizes.idle_s),
        }


def _topics(bench: Bench, count: int) -> list[str]:
    topics = [bench.topic(partitions=2) for _ in range(count)]
    for topic in topics:
        bench.send(topic, _FIRST)
    return topics
