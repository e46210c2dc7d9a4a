"""`--until-idle` ends what has nothing to do, and nothing that is at work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tidemark.cli.progress import Progress

if TYPE_CHECKING:
    from tests.listener.conftest import Scene


@pytest.mark.parametrize("size", [1, 5])
def test_a_batch_that_takes_longer_than_the_idle_time_is_not_interrupted(
    scene: Callable[..., Scene], size: int
) -> None:
    """A report worker takes one request at a time."""
    one, go = scene(), threading.Event()
    one.fill([1])
    running = one.listen(lambda batch: go.wait(60), batch_size=size)
    one.wait(lambda: one.executions)
    with Progress("listen", as_json=True) as progress:
        progress.end_when_idle(0.5, running.listener)
        running.thread.join(3)
        assert running.thread.is_alive()
        go.set()
        running.thread.join(60)
        assert not running.thread.is_alive()
    assert one.committed() == {0: 1}
