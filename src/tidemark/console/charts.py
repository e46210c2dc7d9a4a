"""Converts points of the watch into the numbers of an SVG chart, which the template draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidemark.ingest.monitoring.watch import Point

WIDTH, HEIGHT = 320.0, 80.0


@dataclass(frozen=True)
class Chart:
    """`line` and `area` are SVG point lists. `newest` and `highest` are in the chart's unit."""

    title: str
    line: str
    area: str
    newest: float
    highest: float
    minutes: float


def lag_chart(points: Sequence[Point]) -> Chart:
    return _chart("lag", [(p.at, float(p.lag)) for p in points])


def throughput_chart(points: Sequence[Point]) -> Chart:
    """Offsets that the marks passed each second. A RESTORE or a rewind sets marks back: shown as 0."""
    rates = []
    for before, after in pairwise(points):
        seconds = after.at - before.at
        if seconds > 0:
            rates.append((after.at, max(0.0, (after.done - before.done) / seconds)))
    return _chart("throughput", rates)


def _chart(title: str, values: Sequence[tuple[float, float]]) -> Chart:
    if not values:
        return Chart(title, "", "", 0.0, 0.0, 0.0)
    first, last = values[0][0], values[-1][0]
    highest = max(v for _, v in values)
    span = max(last - first, 1e-9)
    placed = [
        (
            (at - first) / span * WIDTH if len(values) > 1 else WIDTH,
            HEIGHT - (v / highest * (HEIGHT - 6) if highest else 0.0),
        )
        for at, v in values
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    area = f"{placed[0][0]:.1f},{HEIGHT:g} {line} {placed[-1][0]:.1f},{HEIGHT:g}"
    return Chart(title, line, area, values[-1][1], highest, (last - first) / 60)
