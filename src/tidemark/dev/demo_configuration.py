"""The demo's configuration: the sample stream of `conf/tidemark.yml`, in a folder of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from tidemark.dev.samples import AVRO_SCHEMA

TOPIC = "user.events.v1"
STREAM = "user-events"
PARTITIONS = 6
BATCHES = 8
"""How many batches the records make, so that there are some before, between and after the kills."""

DDL = "user_id STRING NOT NULL, event_type STRING, amount DECIMAL(10,2), cob DATE, event_time TIMESTAMP"


@dataclass(frozen=True)
class DemoFiles:
    """Where everything of a demo lies: one folder that can be looked at, kept or thrown away."""

    folder: Path

    @property
    def configuration(self) -> Path:
        return self.folder / "tidemark.yml"

    @property
    def broker(self) -> Path:
        return self.folder / "broker"

    @property
    def table(self) -> Path:
        return self.folder / "lake" / "events" / STREAM

    def writer_log(self, run: int) -> Path:
        return self.folder / f"writer-{run}.log"


def write_configuration(files: DemoFiles, *, bootstrap: str, records: int) -> None:
    """Writes `tidemark.yml` and its schema files. The same stream as the sample configuration's, but for
    smaller batches, so that a kill has a middle to happen in.
    """
    schemas = files.folder / "schemas"
    schemas.mkdir(parents=True, exist_ok=True)
    (schemas / "user-events.ddl").write_text(DDL + "\n")
    (schemas / "user-events.avsc").write_text(json.dumps(AVRO_SCHEMA, indent=2) + "\n")
    files.configuration.write_text(yaml.safe_dump(_document(bootstrap, records), sort_keys=False))


def _document(bootstrap: str, records: int) -> dict[str, object]:
    batch = max(1, -(-records // BATCHES))
    stream = {
        "kafka-topic": TOPIC,
        "supported-formats": ["JSON", "CSV", "AVRO"],
        "schema": {"file": "schemas/user-events.ddl"},
        "avro": {"writer-schema": "schemas/user-events.avsc"},
        "cob": {"field": "cob", "column": "cob_date"},
        "rules": [
            {
                "name": "user_id_required",
                "expr": "length(trim(user_id)) > 0",
                "message": "user_id required",
            },
            {
                "name": "amount_not_negative",
                "expr": "amount >= 0",
                "message": "amount must not be negative",
            },
        ],
        "destination": {
            "bucket": "./lake",
            "path": f"events/{STREAM}",
            "partition-columns": ["cob_date"],
        },
        "processing": {"batch-size": min(1000, batch), "max-batch-size": batch},
    }
    return {
        "application": {"name": "tidemark-demo"},
        "kafka": {
            "bootstrap-servers": bootstrap,
            "consumer": {"group-id": "tidemark-demo", "auto-offset-reset": "earliest"},
        },
        "connector": {"topics": {STREAM: stream}},
        "reports": {"sources": {STREAM: {"account": "user_id", "value": "amount", "at": "event_time"}}},
        "checkpoint-root": "checkpoints",
        "state-dir": "state",
    }
