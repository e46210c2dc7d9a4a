"""The Grafana dashboard and the Prometheus rules name only metrics, labels and pages that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tidemark.monitoring.metric_catalogue import CATALOGUE, Kind

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "observability"
PARTS = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
LABELS = {
    f"{m.name}{part}": {*m.labels, *(["le"] if part == "_bucket" else [])}
    for m in CATALOGUE
    for part in PARTS.get(m.kind, ("",))
}
METRIC = re.compile(r"\btidemark_\w+")
SELECTOR = re.compile(r"(tidemark_\w+)\{([^}]*)\}")


def rules() -> list[dict[str, Any]]:
    return [
        rule for g in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in g["rules"]
    ]


def expressions() -> list[str]:
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    panels = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    variables = [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    page = re.findall(r"`((?:sum|rate|histogram)[^`]+)`", (ROOT / "docs" / "metrics.md").read_text())
    assert len(panels) > 15
    assert len(page) == 6
    return [*panels, *variables, *page, *(rule["expr"] for rule in rules())]


def test_every_expression_names_metrics_and_labels_of_the_registry() -> None:
    named = {name for e in expressions() for name in METRIC.findall(e)}
    assert named - set(LABELS) == set()
    wrong = [
        (metric, label)
        for e in expressions()
        for metric, labels in SELECTOR.findall(e)
        for label in re.findall(r"(\w+)\s*[=!]~?", labels)
        if label not in LABELS[metric]
    ]
    assert wrong == []


def test_the_alerts_that_an_operator_needs_are_there_and_name_pages_that_exist() -> None:
    alerts = {rule["alert"]: rule for rule in rules()}
    assert {
        "TidemarkDeadLettersGrow",
        "TidemarkDeadLetterTopicGrows",
        "TidemarkBreakerOpen",
        "TidemarkLagGrows",
        "TidemarkNoCommit",
        "TidemarkDoesNotAddUp",
    } <= set(alerts)
    for name, rule in alerts.items():
        page, _, heading = rule["annotations"]["runbook"].partition("#")
        text = (ROOT / page).read_text()
        headings = {
            re.sub(r"[^\w-]", "", h.lower().replace(" ", "-")) for h in re.findall(r"^#+ (.+)", text, re.M)
        }
        assert not heading or heading in headings, name
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_panels_of_the_dashboard_have_names_and_do_not_overlap() -> None:
    panels = json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not mine & cells, panel["title"]
        assert max(x for x, _ in mine) < 24
        cells |= mine
    assert len({p["title"] for p in panels}) == len(panels)


def test_the_rules_are_what_prometheus_takes_and_ring_when_they_should() -> None:
    """By promtool, which .ci/run installs; without it the expressions are at least balanced."""
    promtool = shutil.which("promtool")
    for expression in expressions():
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), expression
    if promtool is not None:
        for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
            done = subprocess.run(
                [promtool, *command], cwd=FOLDER, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, done.stdout + done.stderr
