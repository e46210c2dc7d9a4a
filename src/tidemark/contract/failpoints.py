"""Named points in the batch at which tests make the process die or a step fail. Off unless asked for.

`TIDEMARK_FAULTS="after-append=kill@3,before-publish=raise"` kills the process at the third time the
first point is reached, and raises once at the second. `read-log=down` fails as a dependency that is unavailable
does, each time and for as long as it is asked for; `read-log=down@/some/file` as long as that file is there.
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
    """Say that the process is at `point`. Costs one look at the environment when nothing is asked for."""
    asked = os.environ.get(VARIABLE)
    if not asked:
        return
    _reached[point] += 1
    for order in asked.split(","):
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
    """Count from nothing again."""
    _reached.clear()
