"""Commands set the logs up for the whole process; afterwards they are as they were."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, room = logging.getLogger(), logging.getLogger("tidemark")
    before = (list(root.handlers), root.level, list(room.handlers), room.level, room.propagate)
    yield
    structlog.reset_defaults()
    root.handlers[:], room.handlers[:] = before[0], before[2]
    root.setLevel(before[1])
    room.setLevel(before[3])
    room.propagate = before[4]
