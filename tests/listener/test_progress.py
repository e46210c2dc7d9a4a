"""`--until-idle` ends what has nothing to do, and nothing that is at work."""

from __future__ import annotations

import threading
import time
from typing import Any

from tidemark.cli.progress import Progress


class AtWork:
    """What `end_when_idle` uses of a listener."""

    def __init__(self) -> None:
        self.busy = True
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


def test_a_batch_that_takes_longer_than_the_idle_time_is_not_interrupted() -> None:
    listener: Any = AtWork()
    with Progress("listen", as_json=True) as progress:
        progress.end_when_idle(0.3, listener)
        assert not listener.stopped.wait(1.5)
        listener.busy, free = False, time.monotonic()
        assert listener.stopped.wait(10)
        assert time.monotonic() - free >= 0.2
