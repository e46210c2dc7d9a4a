"""Runs `walk.py` in a process of some Python against some Spark, and says what ought to come of it."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import yaml

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

MODES: dict[str, dict[str, Any]] = {
    "people": {"mode": "merge", "merge-keys": ["id"]},
    "copies": {"mode": "fingerprint"},
}
COUNTED = ("read", "accepted", "rejected", "skipped", "duplicate")


def configuration(folder: Path, broker: EmbeddedBroker, *streams_of: str) -> Path:
    """A configuration of new topics: a stream each, of `events` and those of other modes."""
    streams = {name: MODES.get(name, {}) for name in streams_of}
    topics = {}
    for name, idempotency in streams.items():
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        for made in (topic, f"{topic}-dlq"):
            create_topic(broker.bootstrap, made, 1)
        topics[name] = {
            "kafka-topic": topic,
            "supported-formats": ["JSON"],
            "schema": {"ddl": "id INT NOT NULL, name STRING"},
            "destination": {"bucket": str(folder), "path": f"lake/{name}"},
            **({"idempotency": idempotency} if idempotency else {}),
        }
    document = {
        "kafka": {"bootstrap-servers": broker.bootstrap, "consumer": {"group-id": f"walk-{folder.name}"}},
        "connector": {"topics": topics},
        "checkpoint-root": str(folder / "checkpoints"),
        "state-dir": str(folder / "state"),
        "metrics": {"enabled": False},
    }
    path = folder / "tidemark.yml"
    path.write_text(yaml.safe_dump(document))
    return path


def walk(python: str, config: Path, *, remote: str | None = None) -> dict[str, Any]:
    """What the steps returned in a process of this Python: a driver of its own, or a client of `remote`."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **({"SPARK_REMOTE": remote} if remote else {})}
    environ |= {"TIDEMARK_DRIVER_MEMORY": "1g"}
    # The suite's settings are those of its own Spark.
    environ.pop("PYSPARK_SUBMIT_ARGS", None)
    walked = subprocess.run(
        [python, str(HERE / "walk.py"), str(config)],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=config.parent,
        env=environ,
    )
    assert walked.returncode == 0, walked.stdout[-2000:] + walked.stderr[-20000:]
    return dict(json.loads(walked.stdout.splitlines()[-1]))


def counts(**of: int) -> dict[str, int]:
    return dict.fromkeys(COUNTED, 0) | of


def expected(*streams: str, session: str, has: dict[str, bool]) -> dict[str, Any]:
    """The same from every Spark, but for how it is reached and what it has."""
    nothing = {name: counts() for name in streams}
    first = {
        "events": counts(read=4, accepted=2, rejected=1, skipped=1),
        # Each version of an entity is accepted, though only the newest is a row.
        "people": counts(read=3, accepted=3),
        "copies": counts(read=3, accepted=2, duplicate=1),
    }
    landed = {"events": ["n1", "n2", "n3"], "people": ["n2", "new"], "copies": ["n1", "n2"]}
    two_left = {"chosen": 2, "resolved": 0, "already": 0, "rejected": 2, "parked": 0}
    return {
        "session": session,
        "has": has,
        "created": ["created"] * len(streams),
        "again": ["there"] * len(streams),
        "first": {name: first[name] for name in streams},
        "second": nothing | {"events": counts(read=2, accepted=1, rejected=1)},
        "landed": {name: landed[name] for name in streams},
        "letters": {"events": 2},
        "dead letters again": {"events": 2},
        "dry run": two_left,
        "still bad": two_left,
        "replayed": {"chosen": 2, "resolved": 2, "already": 0, "rejected": 0, "parked": 0},
        "replayed again": {"chosen": 0, "resolved": 0, "already": 0, "rejected": 0, "parked": 0},
        "names": ["mended", "mended", "n1", "n2", "n3"],
        "status": {name: {"lag": 0, "problem": None, "kind": "batch"} for name in streams},
        "backfill": {"read": 3, "accepted": 1, "changed": 0, "missing": 0, "rejected": 1},
        "compared": True,
        "maintained": ["compacted", "vacuumed"],
        "names after all": ["mended", "mended", "n1", "n2", "n3"],
    }
