"""The demo from end to end, smaller: a broker of its own, three runs of the writer, the check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import structlog
from pyspark.sql import SparkSession

from tidemark.cli.app import main
from tidemark.dev.demo.audit import landed_rows
from tidemark.dev.demo.configuration import BATCHES, DemoFiles

LAST_LINE = re.compile(
    r"produced (\d+) = landed (\d+) \+ rejected (\d+) \+ skipped (\d+), lost 0, duplicated 0"
    r"; 1 of the rejected has landed since, replayed"
)


@pytest.mark.timeout(600)
def test_the_demo_accounts_for_every_record_when_the_writer_is_killed_twice(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    structlog.reset_defaults()
    code = main(["demo", "--records", "3000", "--keep", str(folder)])
    output = capsys.readouterr()
    assert code == 0, output.err
    last = LAST_LINE.fullmatch(output.out.rstrip().splitlines()[-1])
    assert last is not None
    produced, landed, rejected, skipped = map(int, last.groups())
    assert produced == 3000 == landed + rejected + skipped
    assert min(landed, rejected, skipped) > 0
    assert len(landed_rows(DemoFiles(folder).table)) == landed + 1, "one dead letter was fixed"
    assert output.out.count("Killed with SIGKILL") == 2
    commits = re.search(r"All read, in (\d+) commits: (\d+) with rows, (\d+) that only", output.out)
    assert commits is not None
    assert int(commits[1]) == int(commits[2]) + int(commits[3])
    assert int(commits[2]) >= BATCHES, "each batch has landed by one commit"
    assert int(commits[3]) >= 3, "the first marks, and each batch that ran again"
    for named in (
        "2024-01-17",
        "MALFORMED_CSV",
        "RULE_VIOLATED",
        "EMPTY_PAYLOAD",
        "amount must not be negative",
        "tidemark dead-letters replay",
        "its dead letter is resolved",
        "VOLUME",
        "its archiveRef is sha256-",
    ):
        assert named in output.out
    logged = [line for line in output.out.splitlines() if re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line)]
    assert logged == [], "log lines stand in a file, not between the tables"


def test_the_demo_leaves_nothing_behind_when_it_gets_a_signal(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "tidemark.cli.app", "demo", "--records", "1000"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("tidemark-demo-*/tidemark.yml")) and time.monotonic() < deadline:
        time.sleep(0.05)
    demo.terminate()
    assert demo.wait(60) == 143
    assert list(tmp_path.glob("tidemark-demo-*")) == []
