"""The checkpoint of a DLQ topic's reader, or a new one where Spark could not start from it.

A new one reads from the earliest record again, which is harmless: dead letters are merged by their coordinates.
"""

from __future__ import annotations

import re

import structlog

from tidemark.contract.marks import Marks
from tidemark.platform.files import Files
from tidemark.source.checkpoint import Checkpoint

log = structlog.get_logger(__name__)


def reader_checkpoint(
    files: Files, root: str, name: str, topic: str, *, earliest: Marks, ends: Marks, stream: str
) -> str:
    """The path of the reader's newest checkpoint under `root`, or of a new one (`name`, `name-2`, …) where that is
    damaged, or its position is outside the topic. Logs the records that retention deleted before they were read.
    """
    newest = max((_number(name, found) for found in files.names(root)), default=0)
    if newest == 0:
        return f"{root}/{name}"
    checkpoint = Checkpoint(files, _path(root, name, newest), topic)
    problem = _problem(checkpoint, earliest, ends, stream)
    if problem is None:
        return checkpoint.path
    log.warning(
        "checkpoint of a dead letter reader cannot be used; all dead letters are read again",
        stream=stream,
        checkpoint=checkpoint.path,
        why=problem,
    )
    return _path(root, name, newest + 1)


def _problem(checkpoint: Checkpoint, earliest: Marks, ends: Marks, stream: str) -> str | None:
    position, at = checkpoint.position(), checkpoint.initial()
    if at is None and not checkpoint.begun:
        return None
    if at is None or (position is None and checkpoint.begun):
        return "missing or damaged"
    if position is not None and position.batch_id >= 0:
        at = position.end
    if ends.behind(at):
        return "ahead of the topic"
    passed = at.behind(earliest)
    if not passed:
        return None
    count = sum(first - here for here, first in passed.values())
    log.error(
        "dead letters lost to retention before they were read into the DLQ table",
        stream=stream,
        records=count,
        ranges="; ".join(f"partition {p}: offsets {a} to {b - 1}" for p, (a, b) in passed.items()),
    )
    return "retention passed it"


def _number(name: str, found: str) -> int:
    match = re.fullmatch(rf"{re.escape(name)}(?:-(\d+))?", found)
    return 0 if match is None else int(match[1] or 1)


def _path(root: str, name: str, number: int) -> str:
    return f"{root}/{name}" if number == 1 else f"{root}/{name}-{number}"
