"""How the JVM is started: what its command line shows, and what of the machine it bears."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

KEY, SECRET, TOKEN, FURTHER = "PLANTED-KEY", "PLANTED-SECRET", "PLANTED-TOKEN", "PLANTED-FURTHER"
STARTED = """
import json, os, signal, sys
from tidemark.platform.session import local_session

spark = local_session(
    master="local[1]",
    s3={
        "fs.s3a.access.key": "PLANTED-KEY",
        "fs.s3a.secret.key": "PLANTED-SECRET",
        "fs.s3a.session.token": "PLANTED-TOKEN",
    },
    extra_conf={"spark.hadoop.further.password": "PLANTED-FURTHER"},
)
signal.signal(signal.SIGTERM, lambda *_: None)
folder = sys.argv[1]
spark.range(3).write.format("delta").save(folder)
hadoop = spark._jsc.hadoopConfiguration()
names = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token", "further.password")
reported = {
    "pid": spark._jvm.java.lang.ProcessHandle.current().pid(),
    "conf": [hadoop.get(name) for name in names],
    "temporary": spark._jvm.java.lang.System.getProperty("java.io.tmpdir"),
    "locale": os.environ.get("LC_ALL"),
}
print(json.dumps(reported), flush=True)
sys.stdin.readline()
print(spark.read.format("delta").load(folder).count(), flush=True)
"""


def shown_of(group: int) -> list[bytes]:
    """Command lines and environments of the processes of a group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.getpgid(int(entry.name)) == group:
                found += [(entry / file).read_bytes() for file in ("cmdline", "environ")]
    return found


def test_a_jvm_hides_keys_and_survives_signals_in_any_locale_and_folder(
    tmp_path: Path,
) -> None:
    temporary = tmp_path / "a temporary folder"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED, str(tmp_path / "t\u00fc")],
        env={**os.environ, "LC_ALL": "C", "TMPDIR": str(temporary), "TIDEMARK_DRIVER_MEMORY": "1g"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1][-3000:]
        reported = json.loads(line)
        shown = shown_of(process.pid)
        os.killpg(process.pid, signal.SIGTERM)
        out, errors = process.communicate("go on\n", timeout=120)
    finally:
        process.kill()
    assert reported["conf"] == [KEY, SECRET, TOKEN, FURTHER]
    assert any(b"java.io.tmpdir" in text for text in shown), "the JVM is among the processes"
    assert [text for text in shown if b"PLANTED" in text and STARTED.encode() not in text] == []
    assert (reported["temporary"], reported["locale"]) == (str(temporary), "C")
    assert (process.returncode, out) == (0, "3\n"), errors[-3000:]


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become a user without a name")
def test_a_user_without_a_name_is_reported_what_hadoop_needs_before_java_starts() -> None:
    start = (
        "import os; import tidemark.platform.session as s; import pyspark.sql; "
        "os.setgroups([]); "
        "os.setgid(54321); os.setuid(54321); s.local_session()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", start],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": "/"},
    )
    assert "user 54321 has no entry in /etc/passwd" in ended.stderr
    assert "[TIDEMARK_JVM]" in ended.stderr
    assert "/etc/passwd\n" in ended.stderr.split("hint: ")[1]
    assert "JAVA_GATEWAY_EXITED" not in ended.stderr
