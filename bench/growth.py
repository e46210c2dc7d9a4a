"""`make bench-scaling`: what a batch costs as things grow, and how long a stream takes to start and recover.

Options: `--quick` (small figures, to see that it works), `--only` (one of the measures, repeatable) and
`--out` (a folder for `growth.json`). Costs are CPU seconds of the process and all that it started, besides
wall seconds; what is compared has its turn in one run, after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from landing import QUICK, Bench, Costs, Landing, Sizes
from machine import machine
from rich.console import Console
from rich.table import Table
from writer import BareWriter, Writer

from tidemark.dev.broker import EmbeddedBroker

Found = dict[str, Any]


def _in_turn(bench: Bench, ways: dict[str, Landing]) -> dict[str, Found]:
    """Medians of the batches of each, without the first of each start."""
    kept: dict[str, Costs] = {name: Costs(bench.without) for name in ways}
    for number in range(bench.sizes.rounds + 1):
        for name, landing in ways.items():
            costs = landing.land(bench.sizes.batch * bench.sizes.batches)
            if number:
                kept[name].cpu += costs.cpu[1:]
                kept[name].wall += costs.wall[1:]
    return {name: _medians(costs, bench.sizes.batch) for name, costs in kept.items()}


def _medians(costs: Costs, batch: int) -> Found:
    cpu, wall = statistics.median(costs.cpu), statistics.median(costs.wall)
    return {"cpu_s": cpu, "wall_s": wall, "cpu_us_a_record": cpu / batch * 1e6, "batches": len(costs.cpu)}


def rows_there(bench: Bench) -> dict[str, Found]:
    """A batch into a table of a hundred times the rows."""
    small, large = bench.stream(), bench.stream()
    every = bench.sizes.batch * bench.sizes.batches
    large.land(every * bench.sizes.times, batch=max(250_000, every))
    return _in_turn(bench, {"1 ×": small, f"{bench.sizes.times} ×": large})


def bad_records(bench: Bench) -> dict[str, Found]:
    """A batch of which some records are bad."""
    return _in_turn(bench, {f"{share:.0%}": bench.stream(bad=share) for share in (0.0, 0.01, 0.1)})


def partitions(bench: Bench) -> dict[str, Found]:
    """A batch of the same size from more Kafka partitions."""
    return _in_turn(bench, {f"{n}": bench.stream(partitions=n) for n in bench.sizes.partitions})


def streams(bench: Bench) -> dict[str, Found]:
    """One application, the same records in all, spread over more streams; its start is in the cost."""
    found = {}
    for count in bench.sizes.streams:
        total = bench.sizes.batch * bench.sizes.batches
        topics = [bench.topic(partitions=2) for _ in range(count)]
        for topic in topics:
            bench.send(topic, total // count)
        folder, processing = bench.folder / f"streams-{count}", {"batch-size": 1, "flush-interval": 1}
        with Writer(bench.bootstrap, folder, topics, processing) as writer:
            began = time.monotonic()
            writer.start()
            writer.until_landed(1)
            begun = time.monotonic() - began
            writer.until_landed(total // count)
            found[f"{count}"] = {
                "wall_s": time.monotonic() - began,
                "cpu_s": writer.cpu_seconds(),
                "all_began_s": begun,
                **_idle(writer, bench.sizes.idle_s),
                "memory_mb": writer.memory() / 1e6,
            }
    return found


def _idle(writer: Writer, seconds: float) -> Found:
    """CPU of streams that have no data, once the compilers have come to rest."""
    time.sleep(min(10.0, seconds))
    before = writer.cpu_seconds()
    time.sleep(seconds)
    return {"idle_cpu_s_a_minute": (writer.cpu_seconds() - before) / seconds * 60}


def cores(bench: Bench) -> dict[str, Found]:
    """The same records on one core and on two, each in a process of its own."""
    bench.stop_spark()
    stream = bench.stream()
    records = bench.sizes.batch * bench.sizes.batches * 4
    bench.send(stream.load.topic, records)
    found = {}
    for count in (1, 2):
        folder = bench.folder / f"cores-{count}"
        folder.mkdir()
        answer = subprocess.run(
            [
                *(sys.executable, str(Path(__file__).with_name("one_run.py")), f"local[{count}]"),
                *(bench.bootstrap, stream.load.name, str(bench.sizes.batch * 2), str(folder)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            raise RuntimeError(answer.stderr[-2000:])
        told = json.loads(answer.stdout.splitlines()[-1])
        found[f"{count}"] = {
            "wall_s": statistics.median(told["wall"][1:]),
            "cpu_s": statistics.median(told["cpu"][1:]),
        }
    return found


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


def _until_landed(writer: Writer, records: int) -> float:
    """Seconds from the start of the process."""
    began = time.monotonic()
    writer.start()
    writer.until_landed(records)
    return time.monotonic() - began


MEASURES: dict[str, Callable[[Bench], dict[str, Found]]] = {
    "rows already there": rows_there,
    "bad records": bad_records,
    "partitions": partitions,
    "cores": cores,
    "streams in one application": streams,
    "small batches": small_batches,
}


def main() -> None:
    asked = _arguments()
    console = Console(highlight=False, width=130)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-growth-"))
    found: dict[str, dict[str, Found]] = {}
    try:
        with EmbeddedBroker(folder / "broker") as broker:
            brokers = frozenset(p.pid for p in psutil.Process().children(recursive=True))
            bench = Bench(broker.bootstrap, folder, QUICK if asked.quick else Sizes(), brokers)
            for name, measure in MEASURES.items():
                if not asked.only or name in asked.only:
                    found[name] = measure(bench)
                    console.print(_picture(name, found[name]))
            bench.stop_spark()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        written = {"machine": machine(), "sizes": vars(bench.sizes), "found": found}
        (asked.out / "growth.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def _picture(name: str, found: dict[str, Found]) -> Table:
    """Each figure, and behind it the ratio to the first line's."""
    keys = list(dict.fromkeys(key for figures in found.values() for key in figures))
    rendering = Table("", *keys, title=name)
    first = next(iter(found.values()))
    for line, figures in found.items():
        cells = []
        for key in keys:
            value, base = figures.get(key), first.get(key)
            ratio = f" ({value / base:.2f})" if value is not None and base and figures is not first else ""
            cells.append("" if value is None else f"{value:,.2f}{ratio}")
        rendering.add_row(line, *cells)
    return rendering


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", choices=MEASURES, default=[])
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
