"""Commands set the logs up for the whole process; afterwards they are as they were."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("tidemark")
    before = (list(root.handlers), root.level, list(ours.handlers), ours.level, ours.propagate)
    yield
    structlog.reset_defaults()
    root.handlers[:], ours.handlers[:] = before[0], before[2]
    root.setLevel(before[1])
    ours.setLevel(before[3])
    ours.propagate = before[4]
