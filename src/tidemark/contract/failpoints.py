"""Named points of a batch at which tests make the process die or a step fail. Off by default.

`TIDEMARK_FAULTS="after-append=kill@3,before-publish=raise"` kills the process at the third time the
first point is reached, and raises once at the second. `read-log=down` fails each time, as an unavailable
dependency does; `read-log=down@/some/file` fails as long as that file exists.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from tidemark.contract.errors import RetriableError

VARIABLE = "TIDEMARK_FAULTS"
BATCH_POINTS = (
    "batch-start",
    "read-log",
    "before-append",
    "after-append",
    "before-publish",
    "publish",
    "after-publish",
    "after-group-commit",
)
REPLAY_POINTS = ("letters-start", "letters-merged", "replay-decided", "replay-landed", "replay-noted")
POINTS = (*BATCH_POINTS, *REPLAY_POINTS)
_reached: Counter[str] = Counter()


class InjectedFault(RetriableError):
    condition = "TIDEMARK_INJECTED"


def failpoint(point: str) -> None:
    """Report that the process has reached `point`. When failpoints are off this only reads the environment."""
    orders = os.environ.get(VARIABLE)
    if not orders:
        return
    _reached[point] += 1
    for order in orders.split(","):
        name, _, what = order.strip().partition("=")
        action, _, at = what.partition("@")
        if name != point or not (_is_down(at) if action == "down" else _reached[point] == int(at or 1)):
            continue
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise InjectedFault(f"asked to fail at {point}")


def _is_down(file: str) -> bool:
    return not file or os.path.exists(file)


def forget() -> None:
    """Reset the counts."""
    _reached.clear()
