"""`make bench`: Kafka to Delta, Tidemark with every guarantee on against others, on the same records.

Options: `--records`, `--batch`, `--rounds`, `--partitions`, `--bad` (share of bad records), `--cores`,
`--out` (a folder for `ingest.json` and `ingest.svg`). Medians over the rounds, in which each has its turn.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from meter import Taken, metered
from rich.console import Console
from rich.table import Table
from rivals import RIVALS, Batches, Load

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, create_topic, produce
from tidemark.platform.java import find_java
from tidemark.platform.session import local_session

REFERENCE = {"tidemark": "bare from_json append", "tidemark, landing only": "bare raw append"}
SECOND = "delta-rs loop"


def records(count: int, bad: float) -> Iterator[SampleRecord]:
    lot = random.Random(0)
    for n in range(count):
        text = (
            f'{{"user_id":"u-{n % 1000}","event_type":"click","amount":{n % 50}.25,"quantity":{n % 60},'
            f'"occurred_at":"2024-07-01T12:{n % 60:02d}:{n // 60 % 60:02d}.123Z","cob":"2024-07-01",'
            f'"price":{n % 900}.5,"active":true,"note":"order number {n} of the day","session":{n * 7}}}'
        )
        if lot.random() < bad:
            text = text.replace('"quantity":', '"quantity":"many","was":')
        yield SampleRecord(text.encode(), key=f"u-{n % 1000}".encode())


def main() -> None:
    asked = _arguments()
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in RIVALS}
    try:
        with EmbeddedBroker(folder / "broker") as broker:
            load = Load(broker.bootstrap, "bench", asked.records, asked.batch)
            create_topic(broker.bootstrap, load.topic, asked.partitions, retention_ms="-1")
            console.print(f"producing {asked.records:,} records")
            made = list(records(asked.records, asked.bad))
            size = sum(len(r.value or b"") for r in made)
            produce(broker.bootstrap, load.topic, made)
            del made
            brokers = frozenset(p.pid for p in psutil.Process().children(recursive=True))
            spark = local_session(
                "tidemark-bench",
                master=f"local[{asked.cores}]",
                extra_conf={"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(folder / "spark")},
            )
            for number in range(asked.rounds + 1):
                for name, rival in RIVALS.items():
                    place = folder / f"{name.replace(' ', '-').replace(',', '')}-{number}"
                    place.mkdir()
                    try:
                        with metered(without=brokers) as taken:
                            batches = rival(spark, load, place)
                    except ImportError as missing:
                        console.print(f"{name}: not run, {missing}")
                        continue
                    told = _told(taken, place, size, asked, batches)
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
            "machine": _machine(),
            "options": {**vars(asked), "out": None},
            "medians": found,
            "rounds": rounds,
        }
        (asked.out / "ingest.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        (asked.out / "ingest.svg").write_text(_bars(found), encoding="utf-8")


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
        "commit_max_s": commits[-1] if commits else None,
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
        "MB/s",
        "CPU s / M",
        "peak MB",
        "files",
        "commit p50",
    )
    picture = Table(*columns, title=title)
    for name, m in found.items():
        reference = found.get(REFERENCE.get(name, ""))
        loop = found.get(SECOND)
        commit = m["commit_p50_s"]
        picture.add_row(
            name,
            f"{m['rows_per_s']:,.0f}",
            f"{m['warm_rows_per_s'] or 0:,.0f}",
            _ratios(m, reference),
            _ratios(m, loop),
            f"{m['mb_per_s']:.1f}",
            f"{m['cpu_s_per_million']:.1f}",
            f"{m['peak_mb']:,.0f}",
            f"{m['files']:.0f} ({m['files_mb']:.0f} MB)",
            f"{commit:.2f} s" if commit is not None else "",
        )
    return picture


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


def _machine() -> dict[str, Any]:
    version = subprocess.run(["git", "describe", "--always"], capture_output=True, text=True, check=False)
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "java": find_java().version,
        "tidemark": version.stdout.strip(),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--bad", type=float, default=0.001)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
