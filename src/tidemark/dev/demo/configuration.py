"""The demo's configuration: its subject's stream, in a separate folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from tidemark.dev.demo.subject import USER_EVENTS, DemoSubject

TOPIC = USER_EVENTS.topic
STREAM = USER_EVENTS.stream
PARTITIONS = 6
BATCHES = 8
"""The number of batches of all records: some come before, between and after the kills."""


@dataclass(frozen=True)
class DemoFiles:
    """The files of a demo, all in one folder."""

    folder: Path
    subject: DemoSubject = USER_EVENTS

    @property
    def configuration(self) -> Path:
        return self.folder / "tidemark.yml"

    @property
    def broker(self) -> Path:
        return self.folder / "broker"

    @property
    def table(self) -> Path:
        return self.folder / "lake" / self.subject.path

    def writer_log(self, run: int) -> Path:
        return self.folder / f"writer-{run}.log"


def write_configuration(files: DemoFiles, *, bootstrap: str, records: int) -> None:
    """Writes `tidemark.yml` and its schema files. The stream is the subject's with smaller batches, so that a
    kill happens between batches.
    """
    for name, text in files.subject.files.items():
        path = files.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    document = _document(files.subject, bootstrap, records)
    files.configuration.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def _document(subject: DemoSubject, bootstrap: str, records: int) -> dict[str, object]:
    batch = max(1, -(-records // BATCHES))
    stream = {
        **subject.body,
        "destination": {**subject.body["destination"], "bucket": "./lake"},
        "processing": {"batch-size": min(1000, batch), "max-batch-size": batch},
    }
    return {
        "application": {"name": "tidemark-demo"},
        "kafka": {
            "bootstrap-servers": bootstrap,
            "consumer": {"group-id": "tidemark-demo", "auto-offset-reset": "earliest"},
        },
        "connector": {"topics": {subject.stream: stream}},
        "reports": {"sources": {subject.stream: dict(subject.report)}},
        "checkpoint-root": "checkpoints",
        "state-dir": "state",
    }
