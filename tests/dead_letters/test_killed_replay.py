"""A replay whose process is killed at each of its steps, and run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.dead_letters.conftest import DeadLetters
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.contract.failpoints import VARIABLE
from tidemark.dead_letters.selection import Selection

FIXED = "replace(payload, '\"not a number\"', '7')"


# Whole JVMs start here, on a machine that may be busy.
@pytest.mark.guarantee(
    "bad day: SIGKILL in the replay",
    "fault: What keeps dead letters, or a replay of them, is killed at each step → "
    "Each dead letter is kept once, and lands once",
)
@pytest.mark.timeout(900)
def test_each_dead_letter_lands_once_when_its_replay_is_killed_at_every_step(
    stream: Callable[..., StreamUnderTest], dead_letters: Callable[[StreamUnderTest], DeadLetters]
) -> None:
    flow = stream(partitions=2)
    flow.produce(*[BAD] * 6, good(1), b"{\x81}")
    flow.land()
    kept = dead_letters(flow)
    kept.keep()
    config = flow.folder / "tidemark.yml"
    config.write_text(json.dumps(flow.document()))
    command = [sys.executable, "-m", "tidemark.cli.app", "dead-letters", "replay", "--stream", "events"]

    def killed(point: str) -> tuple[list[int], list[str]]:
        """Ids in the table and statuses of the dead letters after a replay that is killed at `point`."""
        done = subprocess.run(
            [*command, "--code", "TYPE_MISMATCH", "--edit", FIXED, "--config", str(config)],
            env={**os.environ, VARIABLE: f"{point}=kill", "TIDEMARK_DRIVER_MEMORY": "1g"},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
        return flow.ids(), sorted(row.status for row in kept.rows())

    landed = [1, *[7] * 6]
    assert killed("replay-decided") == ([1], ["new"] * 7)
    assert killed("replay-landed") == (landed, ["new"] * 7)
    assert killed("replay-noted") == (landed, ["new", *["resolved"] * 6])

    assert kept.replay(Selection(codes=("TYPE_MISMATCH",))).chosen == 0
    flow.produce(good(2))
    flow.land()
    assert flow.ids() == [1, 2, *[7] * 6]
    assert len(flow.landed()) == len(set(flow.landed()))
