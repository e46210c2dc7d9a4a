"""The lock around commits on a local folder."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tidemark.config.destination import TableRef
from tidemark.contract.errors import RetriableError
from tidemark.platform.commit_lock import commit_lock

HOLD = """
import sys, time
from tidemark.config.destination import TableRef
from tidemark.platform.commit_lock import commit_lock
with commit_lock(TableRef(path=sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.guarantee("fault tolerance: the lock is held")
def test_the_lock_is_given_up_with_a_reason_when_its_holder_is_frozen(
    tmp_path: Path,
) -> None:
    table = TableRef(path=str(tmp_path))
    other = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RetriableError, match="another process holds"), commit_lock(table, within=0.2):
            pass
    finally:
        other.kill()
        other.communicate()
    # A process that is gone holds nothing.
    with commit_lock(table, within=5):
        pass


def test_commits_of_one_table_come_one_after_the_other(tmp_path: Path) -> None:
    table = TableRef(path=str(tmp_path))
    inside: list[str] = []

    def commit(name: str) -> None:
        with commit_lock(table):
            inside.append(f"{name} in")
            time.sleep(0.05)
            inside.append(f"{name} out")

    threads = [threading.Thread(target=commit, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [step.split()[0] for step in inside[::2]] == [step.split()[0] for step in inside[1::2]]


def test_a_table_elsewhere_needs_no_lock() -> None:
    with commit_lock(TableRef(path="s3a://lake/orders")), commit_lock(TableRef(name="main.lake.orders")):
        pass
