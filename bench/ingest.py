"""`make bench`: Kafka to Delta, Tidemark with every guarantee on against others, on the same records.

Options: `--records`, `--size` (bytes of one, in JSON), `--bad` (share of bad records), `--days` (values of
the column `cob`; above 1 it partitions the tables), `--codec` (of Parquet files), `--batch`, `--rounds`,
`--partitions`, `--cores`, `--formats` (JSON, CSV, AVRO, CHANGES), `--only` (one of the ways, repeatable) and
`--out` (a folder for `ingest.json` and `ingest.svg`). Medians over the rounds, in which each has its turn.

All ways take about two minutes a round, the warm-up included, on a quiet machine of two cores; the two loops alone,
`--only "delta-rs loop" --only "delta-rs loop, same work"`, 15 seconds a round.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import psutil
from load import CHANGES, Batches, Load
from machine import machine
from meter import Taken, metered
from rich.console import Console
from rich.table import Table
from rivals import RIVALS
from samples import BASE_BYTES, FORMATS, Samples

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic, produce
from tidemark.platform.session import local_session

REFERENCE = {
    "tidemark": "bare from_json append",
    "tidemark, statistics of the coordinates": "bare from_json append",
    "tidemark, landing only": "bare raw append",
    "tidemark, CSV": "tidemark",
    "tidemark, Avro": "bare from_avro append",
    "tidemark, changes": "kafka2delta",
}
LOOP, SAME_WORK = "delta-rs loop", "delta-rs loop, same work"


def main() -> None:
    asked = _arguments()
    console = Console(highlight=False, width=180)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    ways = {name: way for name, way in RIVALS.items() if _wanted(name, way[1], asked)}
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    try:
        with EmbeddedBroker(folder / "broker") as broker:
            load = Load(broker.bootstrap, "bench", asked.records, asked.batch, partitioned=asked.days > 1)
            sizes = {
                form: _produce(load, form, asked, console) for form in sorted({w[1] for w in ways.values()})
            }
            brokers = frozenset(p.pid for p in psutil.Process().children(recursive=True))
            spark = local_session(
                "tidemark-bench",
                master=f"local[{asked.cores}]",
                extra_conf={
                    "spark.sql.shuffle.partitions": "2",
                    "spark.local.dir": str(folder / "spark"),
                    "spark.sql.warehouse.dir": str(folder / "warehouse"),
                    "spark.sql.parquet.compression.codec": asked.codec,
                },
            )
            for number in range(asked.rounds + 1):
                for name, (rival, form) in ways.items():
                    place = folder / f"{name.replace(' ', '-').replace(',', '')}-{number}"
                    place.mkdir()
                    try:
                        with metered(without=brokers) as taken:
                            batches = rival(spark, load, place)
                    except ImportError as missing:
                        console.print(f"{name}: not run, {missing}")
                        continue
                    told = _told(taken, place, sizes[form], asked, batches)
                    which = "warm-up" if number == 0 else f"round {number}"
                    console.print(
                        f"{which}: {name}: {told['rows_per_s']:,.0f} rows/s, {told['seconds']:.1f} s"
                    )
                    if number:
                        rounds[name].append(told)
                    shutil.rmtree(place)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = {name: _medians(taken) for name, taken in rounds.items() if taken}
    console.print(_picture(found, asked))
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        written = {
            "machine": machine(),
            "options": {**vars(asked), "out": None},
            "medians": found,
            "rounds": rounds,
        }
        (asked.out / "ingest.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        (asked.out / "ingest.svg").write_text(_bars(found), encoding="utf-8")


def _wanted(name: str, form: str, asked: argparse.Namespace) -> bool:
    return form in asked.formats and (not asked.only or name in asked.only)


def _produce(load: Load, form: str, asked: argparse.Namespace, console: Console) -> int:
    """Records of this format into their topic; returns their bytes."""
    samples = Samples(asked.records, size=asked.size, bad=asked.bad, days=asked.days)
    create_topic(load.bootstrap, load.topic_of(form), asked.partitions, retention_ms="-1")
    console.print(f"producing {asked.records:,} records, {form}")
    made = list(samples.changes() if form == CHANGES else samples.of(form))
    produce(load.bootstrap, load.topic_of(form), made)
    return sum(len(r.value or b"") for r in made)


def _told(
    taken: Taken, place: Path, size: int, asked: argparse.Namespace, batches: Batches
) -> dict[str, Any]:
    """What one run came to. Warm: the batches after the first one, without start and end of the stream."""
    count, warm = asked.records, batches.seconds[1:]
    files = [f for f in (place / "table").rglob("*.parquet") if "_delta_log" not in f.parts]
    commits = sorted(batches.commits)
    return {
        "seconds": taken.seconds,
        "rows_per_s": count / taken.seconds,
        "warm_rows_per_s": (count - asked.batch) / sum(warm) if warm else None,
        "mb_per_s": size / taken.seconds / 1e6,
        "cpu_s_per_million": taken.cpu_seconds / count * 1e6,
        "peak_mb": taken.peak_bytes / 1e6,
        "files": len(files),
        "files_mb": sum(f.stat().st_size for f in files) / 1e6,
        "commit_p50_s": commits[len(commits) // 2] if commits else None,
        "commit_p99_s": commits[math.ceil(len(commits) * 0.99) - 1] if commits else None,
    }


def _medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        key: statistics.median(values) if None not in (values := [r[key] for r in rounds]) else None
        for key in rounds[0]
    }


def _picture(found: dict[str, dict[str, Any]], asked: argparse.Namespace) -> Table:
    title = f"{asked.records:,} records, batches of {asked.batch:,}, {asked.bad:.2%} bad, {asked.cores} cores"
    columns = (
        "",
        "rows/s",
        "warm rows/s",
        "to its reference",
        "to the loop",
        "to the loop, same work",
        "MB/s",
        "CPU s / M",
        "peak MB",
        "files",
        "commit p50, p99",
    )
    rendering = Table(*columns, title=title)
    for name, m in found.items():
        reference = found.get(REFERENCE.get(name, ""))
        commit = m["commit_p50_s"]
        rendering.add_row(
            name,
            f"{m['rows_per_s']:,.0f}",
            f"{m['warm_rows_per_s'] or 0:,.0f}",
            _ratios(m, reference),
            _ratios(m, found.get(LOOP)),
            _ratios(m, found.get(SAME_WORK)),
            f"{m['mb_per_s']:.1f}",
            f"{m['cpu_s_per_million']:.1f}",
            f"{m['peak_mb']:,.0f}",
            f"{m['files']:.0f} ({m['files_mb']:.0f} MB)",
            f"{commit:.2f}, {m['commit_p99_s']:.2f} s" if commit is not None else "",
        )
    return rendering


def _ratios(one: dict[str, Any], other: dict[str, Any] | None) -> str:
    """Warm, then of whole runs."""
    if other is None:
        return ""
    keys = ("warm_rows_per_s", "rows_per_s")
    return ", ".join(f"{one[key] / other[key]:.2f}" if one[key] and other[key] else "-" for key in keys)


def _bars(found: dict[str, dict[str, Any]]) -> str:
    """Rows a second as an SVG, readable on light and dark ground."""
    most = max(m["rows_per_s"] for m in found.values())
    lines = []
    for at, (name, m) in enumerate(found.items()):
        y, width = 20 + at * 34, m["rows_per_s"] / most * 380
        colour = "#0f766e" if name.startswith("tidemark") else "#94a3b8"
        lines.append(f'<text x="8" y="{y + 15}" fill="#64748b">{name}</text>')
        lines.append(f'<rect x="200" y="{y}" width="{width:.0f}" height="22" rx="3" fill="{colour}"/>')
        lines.append(f'<text x="{208 + width:.0f}" y="{y + 15}" fill="#64748b">{m["rows_per_s"]:,.0f}</text>')
    height = 30 + len(found) * 34
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{height}" font-family="sans-serif"'
        f' font-size="13" role="img" aria-label="Rows a second">\n{body}\n</svg>\n'
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=BASE_BYTES)
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--codec", default="snappy")
    parser.add_argument("--formats", type=lambda text: text.upper().split(","), default=[*FORMATS, CHANGES])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--batch", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--bad", type=float, default=0.001)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
