"""Spark Connect servers on loopback: an open one, and one that refuses what serverless compute refuses."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.runtimes.strict import Refusals, strict_proxy

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def connect_server(
    folder: Path, *, server: str = sys.executable, worker: str = sys.executable, through: int | None = None
) -> Iterator[str]:
    """A server of the Python `server`, whose batches run in the Python `worker`; its address.

    Workers talk to the server by the port `through`.
    """
    port = free_port()
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [server, str(HERE / "connect_server.py"), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": str(_worker(folder, server, worker, through))},
        )
        assert process.stdout is not None
        try:
            assert "serving\n" in iter(process.stdout.readline, ""), (folder / "server.log").read_text()
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.communicate(timeout=60)


@contextmanager
def strict_server(
    folder: Path, *, server: str = sys.executable, worker: str = sys.executable
) -> Iterator[tuple[str, Refusals]]:
    """A server behind a door that refuses as serverless compute does, batches included; what was refused."""
    port = free_port()
    with (
        connect_server(folder, server=server, worker=worker, through=port) as address,
        strict_proxy(port, address.removeprefix("sc://"), client_of=worker) as refused,
    ):
        yield f"sc://127.0.0.1:{port}", refused


def _worker(folder: Path, server: str, client: str, through: int | None) -> Path:
    """Python as the server calls it: functions of plans run with its own pyspark, batches with the client's,
    without what Spark would put in front of it.
    """
    address = f"export SPARK_CONNECT_LOCAL_URL=sc://127.0.0.1:{through}/${{SPARK_CONNECT_LOCAL_URL##*/}}"
    lines = [
        "#!/bin/sh",
        'case "$*" in',
        "  *connect.streaming.worker*)",
        f"    unset PYTHONPATH; {address if through else ':'}",
        f'    exec {client} "$@" ;;',
        f'  *) exec {server} "$@" ;;',
        "esac",
    ]
    script = folder / "worker-python"
    script.write_text("\n".join([*lines, ""]))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script
