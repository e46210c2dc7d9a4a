"""`make bench-scaling`: what a batch costs as things grow, and how long a stream takes to start and recover.

Costs are CPU seconds of the process and all that it started, besides wall seconds; what is compared has its turn
in one run, after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from landing import QUICK, Bench, Costs, Found, Landing, Sizes
from machine import machine
from many_streams import failing_stream, streams
from rich.console import Console
from rich.table import Table
from small_batches import few_records, small_batches
from start_timeline import start_timeline

from tidemark.dev.broker import EmbeddedBroker


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


def codecs(bench: Bench) -> dict[str, Found]:
    """A batch of records that their producer has compressed."""
    return _in_turn(bench, {codec: bench.stream(codec=codec) for codec in ("none", "zstd", "lz4")})


def cores(bench: Bench) -> dict[str, Found]:
    """The same records on one core and on two, each in a process of its own. The broker has all cores."""
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
            preexec_fn=partial(_only_on, count),
        )
        if answer.returncode:
            raise RuntimeError(answer.stderr[-2000:])
        told = json.loads(answer.stdout.splitlines()[-1])
        found[f"{count}"] = {
            "wall_s": statistics.median(told["wall"][1:]),
            "cpu_s": statistics.median(told["cpu"][1:]),
        }
    return found


def _only_on(count: int) -> None:
    """Keep this process, and what it starts, to so many cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


class Measure(NamedTuple):
    """`minutes`: about what it takes in full on a quiet machine of two cores. `ratios`: to the first line."""

    run: Callable[[Bench], dict[str, Found]]
    minutes: int
    ratios: bool = True


MEASURES = {
    "rows already there": Measure(rows_there, 6),
    "bad records": Measure(bad_records, 2),
    "partitions": Measure(partitions, 4),
    "codec": Measure(codecs, 2),
    "cores": Measure(cores, 2),
    "streams in one application": Measure(streams, 14),
    "a stream that fails": Measure(failing_stream, 8, ratios=False),
    "small batches": Measure(small_batches, 5),
    "six records a batch": Measure(few_records, 3),
    "start": Measure(start_timeline, 4, ratios=False),
}


def main() -> None:
    asked = _arguments()
    console = Console(highlight=False, width=130)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-growth-"))
    found: dict[str, dict[str, Found]] = {}
    try:
        with EmbeddedBroker(folder / "broker") as broker:
            brokers = frozenset(p.pid for p in psutil.Process().children(recursive=True))
            sizes = QUICK if asked.quick else Sizes()
            if asked.rounds is not None:
                sizes = replace(sizes, rounds=asked.rounds, starts=asked.rounds)
            bench = Bench(broker.bootstrap, folder, sizes, brokers)
            for name, measure in MEASURES.items():
                if not asked.only or name in asked.only:
                    found[name] = measure.run(bench)
                    console.print(_picture(name, found[name], ratios=measure.ratios))
            bench.stop_spark()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        written = {"machine": machine(), "sizes": vars(bench.sizes), "found": found}
        (asked.out / "growth.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def _picture(name: str, found: dict[str, Found], *, ratios: bool) -> Table:
    """Each figure, and behind it, where `ratios` are asked for, the ratio to the first line's."""
    keys = list(dict.fromkeys(key for figures in found.values() for key in figures))
    rendering = Table("", *keys, title=name)
    first = next(iter(found.values()))
    for line, figures in found.items():
        cells = []
        for key in keys:
            value, base = figures.get(key), first.get(key)
            compared = ratios and figures is not first and value is not None and base
            ratio = f" ({value / base:.2f})" if compared else ""
            cells.append("" if value is None else f"{value:,.2f}{ratio}")
        rendering.add_row(line, *cells)
    return rendering


def _arguments() -> argparse.Namespace:
    listed = "; ".join(f"{name}, {measure.minutes} minutes" for name, measure in MEASURES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"In full, on a quiet machine of two cores: {listed}."
    )
    parser.add_argument("--quick", action="store_true", help="small figures, to see that it works")
    parser.add_argument("--only", action="append", choices=MEASURES, default=[], help="this one; repeatable")
    parser.add_argument("--rounds", type=int, help="rounds of each way, and starts of `start`")
    parser.add_argument("--out", type=Path, default=None, help="a folder for growth.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
