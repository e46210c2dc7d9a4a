"""The keys of a configuration that serverless compute cannot run."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.config.reading.faults import Fault
from tidemark.config.settings import Settings
from tidemark.config.stream import Mode

CLASSIC_OR_NATIVE = (
    "use kafka-native, or run this stream on a job cluster: tidemark bundle compute job-cluster"
)
NEEDS = {
    Mode.MERGE: "MERGE needs session settings for its transaction, which serverless compute does not allow",
    Mode.FINGERPRINT: "its memory needs session settings and localCheckpoint, which serverless compute does not have",
}
"""Why a mode does not run there."""


def serverless_faults(settings: Settings) -> Iterator[Fault]:
    """Each key that would stop a job on serverless compute, with what to do."""
    for name, stream in settings.streams.items():
        mode = stream.idempotency.mode
        if mode in NEEDS and stream.destination is not None:
            problem = f"{mode} does not run on serverless compute: {NEEDS[mode]}"
            yield settings.fault(
                ("connector", "topics", name, "idempotency", "mode"), problem, CLASSIC_OR_NATIVE
            )
    root = settings.checkpoint_root
    if not root.startswith(("/Volumes/", "/Workspace/")):
        yield settings.fault(
            ("checkpoint-root",),
            f"{root} does not exist on serverless compute, whose own disk is deleted after each run",
            "a volume: /Volumes/<catalog>/<schema>/checkpoints",
        )
