"""`make bench-long`: does memory stay flat over an hour of batches, and how does it compare to the bare way?

Each way is a process of its own, both at the same time, with the same heap, the same records at the same pace
and batches of the same size. Options: `--minutes`, `--batch`, `--rate` (records a second of each) and `--out` (a
folder for `long.json` and `long.svg`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from load import Load
from machine import machine
from meter import family_memory
from rich.console import Console
from rich.table import Table
from samples import Samples

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic, produce

WAYS = ("bare", "tidemark")
EVERY_S = 1.0
WARM_SHARE = 0.25
"""A JVM takes its heap by and by; flatness is judged after this share of the time."""


def main() -> None:
    asked = _arguments()
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-long-"))
    try:
        with EmbeddedBroker(folder / "broker") as broker, ThreadPoolExecutor() as pool:
            console.print(f"{asked.minutes:g} minutes at {asked.rate:,} records a second")
            running = {}
            for way in WAYS:
                load = Load(broker.bootstrap, f"long-{way}", 0, asked.batch)
                # The disk is not to fill: what was read long ago may go.
                kept = {"retention_ms": "600000", "segment_bytes": str(64 * 1024 * 1024)}
                create_topic(broker.bootstrap, load.topic, 6, **kept)
                running[way] = pool.submit(_observed, way, load, folder / way, asked.minutes * 60, asked.rate)
            found = {way: observed.result() for way, observed in running.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(_picture(found))
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        written = {"machine": machine(), "options": {**vars(asked), "out": None}, "found": found}
        (asked.out / "long.json").write_text(json.dumps(written) + "\n", encoding="utf-8")
        (asked.out / "long.svg").write_text(_curves(found), encoding="utf-8")


def _observed(way: str, load: Load, folder: Path, seconds: float, rate: int) -> dict[str, Any]:
    """The memory of one way's process tree, second by second, while records come."""
    folder.mkdir()
    script = Path(__file__).with_name("steady.py")
    with (folder / "steady.log").open("wb") as log:
        process = psutil.Popen(
            [sys.executable, str(script), way, load.bootstrap, load.name, str(load.batch), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    ended = threading.Event()
    sent = [0]
    sender = threading.Thread(target=_send, args=(load, rate, ended, sent))
    sender.start()
    megabytes: list[float] = []
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError((folder / "steady.log").read_text()[-3000:])
            megabytes.append(family_memory(process) / 1e6)
            time.sleep(EVERY_S)
    finally:
        ended.set()
        sender.join()
        process.terminate()
        process.wait(120)
    batches = json.loads((folder / "batches.json").read_text())
    return {"megabytes": megabytes, "sent": sent[0], **batches, **_judged(megabytes)}


def _send(load: Load, rate: int, ended: threading.Event, sent: list[int]) -> None:
    """Records at an even pace, in lots of a quarter of a second."""
    lot = list(Samples(max(1, rate // 4)).of("JSON"))
    began = time.monotonic()
    while not ended.is_set():
        produce(load.bootstrap, load.topic, lot)
        sent[0] += len(lot)
        ended.wait(max(0.0, began + sent[0] / rate - time.monotonic()))


def _judged(megabytes: list[float]) -> dict[str, float]:
    """Peaks of the second half's two halves, and the slope over what came after the warm-up.

    A process that is just forked counts twice, for a moment: of three samples the middle one stands.
    """
    megabytes = [statistics.median(megabytes[max(0, n - 1) : n + 2]) for n in range(len(megabytes))]
    warm = megabytes[int(len(megabytes) * WARM_SHARE) :]
    middle = len(warm) // 2
    times = [n * EVERY_S / 60 for n in range(len(warm))]
    slope = statistics.linear_regression(times, warm).slope
    return {
        "peak_mb": max(megabytes),
        "warm_median_mb": statistics.median(warm),
        "first_half_peak_mb": max(warm[:middle]),
        "second_half_peak_mb": max(warm[middle:]),
        "mb_a_minute": slope,
    }


def _picture(found: dict[str, dict[str, Any]]) -> Table:
    columns = ("peak MB", "median MB", "peaks of two halves", "MB a minute", "batches", "records")
    rendering = Table("", *columns, title="memory of the process tree")
    for way, m in found.items():
        rendering.add_row(
            way,
            f"{m['peak_mb']:,.0f} ({m['peak_mb'] / found['bare']['peak_mb']:.2f})",
            f"{m['warm_median_mb']:,.0f}",
            f"{m['first_half_peak_mb']:,.0f}, {m['second_half_peak_mb']:,.0f}",
            f"{m['mb_a_minute']:+.1f}",
            f"{m['batches']:,}",
            f"{m['read']:,} of {m['sent']:,}",
        )
    return rendering


def _curves(found: dict[str, dict[str, Any]]) -> str:
    """Memory over time, one line a way."""
    most = max(m["peak_mb"] for m in found.values())
    longest = max(len(m["megabytes"]) for m in found.values())
    colours = {"bare": "#94a3b8", "tidemark": "#0f766e"}
    lines = []
    for at, (way, m) in enumerate(found.items()):
        points = " ".join(
            f"{40 + n / longest * 620:.1f},{230 - mb / most * 200:.1f}"
            for n, mb in enumerate(m["megabytes"])
            if n % max(1, longest // 600) == 0
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colours[way]}" stroke-width="1.5"/>')
        lines.append(f'<text x="{48 + at * 90}" y="20" fill="{colours[way]}">{way}</text>')
    lines.append(f'<text x="2" y="34" fill="#64748b">{most:,.0f} MB</text>')
    lines.append(f'<text x="560" y="248" fill="#64748b">{longest * EVERY_S / 60:.0f} minutes</text>')
    body = "\n".join(lines)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="680" height="256" font-family="sans-serif"'
        f' font-size="13" role="img" aria-label="Memory over time">\n{body}\n</svg>\n'
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
