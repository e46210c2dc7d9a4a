"""Spark's Python workers are forked from a process that has imported what decoding needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.platform import worker_daemon

SESSION = """
from tidemark.platform.session import local_session

def looked_at(batches):
    import sys
    before = set(sys.modules)
    import os, pathlib, pyarrow
    import tidemark.transform.decode.udf
    decoder = {"tidemark.transform.decode.udf", "pandas"} <= before
    try:
        import shipped
    except ImportError:
        shipped = None
    daemon = pathlib.Path(f"/proc/{os.getppid()}")
    module = daemon.joinpath("cmdline").read_text().split(chr(0))[2]
    threads = len(list(daemon.joinpath("task").iterdir()))
    text = f"{module} {threads} {decoder} {shipped is not None}"
    import numpy
    for batch in batches:
        yield pyarrow.RecordBatch.from_pylist([{"text": text, "drawn": numpy.random.rand()}] * len(batch))

spark = local_session(master="local[1]")
tasks = spark.range(0, 2, 1, 2).mapInArrow(looked_at, "text STRING, drawn DOUBLE").collect()
print(*{task.text for task in tasks}, len({task.drawn for task in tasks}))
"""
OURS, SPARKS = "tidemark.platform.worker_daemon", "pyspark.daemon"
WITH_A_THREAD = """
import sys, threading, time
if "tidemark.platform.worker_daemon" in sys.orig_argv:
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
"""


def seen_by_a_worker(folder: Path, **settings: object) -> str:
    """The module of the worker's daemon, its threads, whether the worker had the decoder and pandas before it
    imported them, whether it can import what was shipped to it, and how many numbers two workers draw."""
    settings = {"spark_python_worker_reuse": "false", **settings}
    options = [f"--conf {name.replace('_', '.')}={value}" for name, value in settings.items()]
    environment = {
        "PYTHONPATH": str(folder),
        "PYSPARK_SUBMIT_ARGS": " ".join([*options, "pyspark-shell"]),
    }
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


def test_a_worker_has_the_decoder_when_it_begins(tmp_path: Path) -> None:
    assert seen_by_a_worker(tmp_path) == f"{OURS} 1 True False 2"


def test_modules_that_spark_ships_are_there(tmp_path: Path) -> None:
    shipped = tmp_path / "files" / "shipped.py"
    shipped.parent.mkdir()
    shipped.touch()
    assert seen_by_a_worker(tmp_path, spark_submit_pyFiles=shipped) == f"{OURS} 1 True True 2"


def test_another_daemon_that_is_configured_stays(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from pyspark.daemon import manager\nmanager()\n", encoding="utf-8")
    assert seen_by_a_worker(tmp_path, spark_python_daemon_module="own") == "own 1 False False 2"


def test_a_daemon_with_a_second_thread_forks_no_worker(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITH_A_THREAD, encoding="utf-8")
    assert seen_by_a_worker(tmp_path) == f"{SPARKS} 1 False False 2"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_a_cluster_has_the_daemon_of_spark(master: str) -> None:
    assert worker_daemon.settings(master) == {}


def test_another_python_which_may_lack_tidemark_has_the_daemon_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python3"
    python.symlink_to(sys.executable)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    monkeypatch.setattr("pyspark.SparkContext.getSystemProperty", lambda _: None)
    assert worker_daemon.settings("local[2]") == {}
    monkeypatch.setenv("PYSPARK_PYTHON", str(Path(sys.executable).with_name("python3")))
    assert worker_daemon.settings("local[2]") != {}
