"""A broker that runs on after the command that started it: `tidemark broker start`, `stop` and `status`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tidemark.contract.errors import UsageError
from tidemark.dev.kafka_server import HOST, BrokerFailed, KafkaServer, free_ports
from tidemark.dev.watchdog import command_line

DEFAULT_FOLDER = Path(".tidemark/broker")


@dataclass(frozen=True)
class DetachedBroker:
    pid: int
    port: int
    bootstrap: str
    folder: str
    log_file: str


def start_detached(folder: Path = DEFAULT_FOLDER, *, port: int = 9092) -> DetachedBroker:
    """The broker of this folder, started with its earlier data unless it runs. `port=0` takes a free port.

    Raises:
        BrokerFailed: the port is taken, or the broker does not start.
    """
    folder = folder.absolute()
    if running := detached_status(folder):
        return running
    port = port or free_ports(1)[0]
    with socket.socket() as probe:
        if probe.connect_ex((HOST, port)) == 0:
            raise BrokerFailed(f"port {port} is taken by another program", "choose another one with --port")
    server = KafkaServer(folder=folder, port=port, controller_port=free_ports(1)[0])
    server.prepare()
    process = server.launch()
    try:
        server.wait_until_ready(process)
    except BaseException:
        process.kill()
        process.wait(10)
        raise
    # This process ends before its child on purpose; without this, Python warns about it.
    process.returncode = 0
    broker = DetachedBroker(process.pid, port, server.bootstrap, str(folder), str(server.log_file))
    _state_file(folder).write_text(json.dumps(asdict(broker), indent=2))
    return broker


def detached_status(folder: Path = DEFAULT_FOLDER) -> DetachedBroker | None:
    """The running broker of this folder, or None."""
    folder = folder.absolute()
    try:
        broker = DetachedBroker(**json.loads(_state_file(folder).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return broker if _lives(broker.pid, folder) else None


def stop_detached(folder: Path = DEFAULT_FOLDER, *, clean: bool = False) -> bool:
    """Ends the broker of this folder; True if one ran. `clean` deletes its data as well."""
    folder = folder.absolute()
    broker = detached_status(folder)
    if broker is not None:
        _end(broker.pid, folder)
    if clean and folder.exists():
        if not (folder / "server.properties").exists():
            raise UsageError(f"{folder} is not the folder of a Tidemark broker", "delete it by hand")
        shutil.rmtree(folder)
    elif broker is not None:
        _state_file(folder).unlink(missing_ok=True)
    return broker is not None


def _end(pid: int, folder: Path) -> None:
    for number, seconds in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() <= deadline:
            if not _lives(pid, folder):
                return
            time.sleep(0.05)
    raise BrokerFailed(f"the broker with process id {pid} does not end")


def _lives(pid: int, folder: Path) -> bool:
    # A child of this process that has ended stays a zombie until it is waited for.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return str(folder / "server.properties") in command_line(pid)


def _state_file(folder: Path) -> Path:
    return folder / "broker.json"
