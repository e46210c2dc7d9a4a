"""The lock around commits on a local folder."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import pytest

from tidemark.config.destination import TableRef
from tidemark.contract.errors import Locked, NonRetriableError
from tidemark.contract.failures import Action
from tidemark.platform import commit_lock as lock
from tidemark.platform.commit_lock import commit_lock
from tidemark.resilience.classification import Classifier

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
        with pytest.raises(Locked, match="another writer holds"), commit_lock(table, within=0.2):
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


def test_another_user_of_a_shared_folder_takes_the_lock_too() -> None:
    """Linux grants a lock on a file that may only be read, so who made the file does not matter."""
    with TemporaryDirectory() as shared:
        folder, table = Path(shared), TableRef(path=shared)
        folder.chmod(0o777)
        (folder / "_tidemark.lock").touch(0o444)
        with nobody(), commit_lock(table), pytest.raises(Locked), commit_lock(table, within=0.1):
            pass


@contextmanager
def nobody() -> Iterator[None]:
    """Root may write what no mode allows; other users keep to it, also to that of their own files."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_is_no_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / "_tidemark.lock").mkdir()
    said = r"_tidemark\.lock cannot be taken: Is a directory"
    with pytest.raises(NonRetriableError, match=said), commit_lock(TableRef(path=str(tmp_path))):
        pass


def test_a_table_made_again_while_its_lock_is_waited_for_has_one_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    table, path = TableRef(path=str(folder)), folder / "_tidemark.lock"
    opened = [path.open("a")]  # another writer's, from before the table was created again
    path.unlink()
    again = lock._opened
    monkeypatch.setattr(lock, "_opened", lambda path: opened.pop() if opened else again(path))
    with commit_lock(table):
        assert not opened
        with pytest.raises(Locked), commit_lock(table, within=0.1):
            pass


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ESTALE])
def test_what_passes_is_an_outage_and_stops_no_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(path: Path) -> IO[str]:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(lock, "_opened", fails)
    with (
        pytest.raises(OSError, match=os.strerror(number)) as raised,
        commit_lock(TableRef(path=str(tmp_path))),
    ):
        pass
    assert Classifier().classify(raised.value).action is Action.RETRY


def test_a_folder_that_may_not_be_written_is_named_when_it_has_no_lock_yet() -> None:
    with TemporaryDirectory() as shared:
        Path(shared).chmod(0o755)
        said = r"_tidemark\.lock cannot be taken: Permission denied"
        with nobody(), pytest.raises(NonRetriableError, match=said), commit_lock(TableRef(path=shared)):
            pass
