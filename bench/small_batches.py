"""From outside: small batches of a stream that stays up, its start, and its recovery after a kill."""

from __future__ import annotations

import signal
import statistics
import time

from landing import Bench, Found
from writer import BareWriter, Writer

_FEW = 6
_PACE_S = 2.0


def small_batches(bench: Bench) -> dict[str, Found]:
    """Small batches of a stream that stays up, its start, and its recovery after a kill, from outside, and
    those of Spark's own stream.
    """
    bench.stop_spark()
    ours = _small_batches(bench, Writer, bench.topic())
    bare = _small_batches(bench, BareWriter, bench.topic(suffix="_json"))
    return {**ours, **{f"bare: {what}": found for what, found in bare.items()}}


def _small_batches(bench: Bench, kind: type[Writer], topic: str) -> dict[str, Found]:
    records = bench.sizes.small
    bench.send(topic, records)
    with kind(bench.bootstrap, bench.folder / f"small-{topic}", [topic], {"batch-size": records}) as writer:
        first = _until_landed(writer, records)
        sent, took = records, []
        for _ in range(bench.sizes.tries + 2):
            time.sleep(1)
            bench.send(topic, records)
            sent += records
            took.append(writer.until_landed(sent))
        recovered, again = [], []
        for number in (signal.SIGKILL, signal.SIGTERM) * 2:
            writer.end(number)
            bench.send(topic, records)
            sent += records
            (recovered if number == signal.SIGKILL else again).append(_until_landed(writer, sent))
        writer.end()
    warm = sorted(took[2:])
    return {
        f"{records:,} records visible, from the last acknowledgement": {
            "wall_s": statistics.median(warm),
            "highest_s": warm[-1],
        },
        "first record of a new stream, from the start of the process": {"wall_s": first},
        "first record after a start": {"wall_s": statistics.median(again)},
        "first record after a kill": {"wall_s": statistics.median(recovered)},
    }


def few_records(bench: Bench) -> dict[str, Found]:
    """Six records each two seconds: what a batch costs that its records do not, each way a process of its own."""
    bench.stop_spark()
    return {
        "bare": _few_records(bench, BareWriter, bench.topic(suffix="_json")),
        "tidemark": _few_records(bench, Writer, bench.topic()),
    }


def _few_records(bench: Bench, kind: type[Writer], topic: str) -> Found:
    batches = 2 * bench.sizes.tries
    with kind(bench.bootstrap, bench.folder / f"few-{topic}", [topic], {"batch-size": _FEW}) as writer:
        writer.start()
        before = 0.0
        for number in range(1, 2 * batches + 1):
            began = time.monotonic()
            bench.send(topic, _FEW)
            writer.until_landed(number * _FEW)
            time.sleep(max(0.0, began + _PACE_S - time.monotonic()))
            if number == batches:
                before = writer.cpu_seconds()
        return {"cpu_s": (writer.cpu_seconds() - before) / batches, "batches": batches}


def _until_landed(writer: Writer, records: int) -> float:
    """Seconds from the start of the process."""
    began = time.monotonic()
    writer.start()
    writer.until_landed(records)
    return time.monotonic() - began
