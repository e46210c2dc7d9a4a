"""Spark's own standalone cluster as processes of this machine: a master, and workers that may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pyspark

from tidemark.dev.kafka_server import free_ports
from tidemark.dev.watchdog import Watchdog
from tidemark.platform.jvm.java import find_java

HOST = "127.0.0.1"
EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Daemon:
    """A master or a worker. It ends with this process, however that ends."""

    process: subprocess.Popen[bytes]
    log_file: Path
    watchdog: Watchdog

    def wait_for(self, words: str, *, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while words not in self.log_file.read_text(errors="replace"):
            assert self.process.poll() is None, self.log_file.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, f"{self.log_file.name} never logs: {words}"
            time.sleep(0.1)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        try:
            return self.process.wait(30)
        finally:
            self.watchdog.dismiss()


@dataclass
class StandaloneCluster:
    """One master; `add_worker` adds workers of one core, each of which runs one executor."""

    folder: Path
    workers: list[Daemon] = field(default_factory=list)
    started: int = 0

    def __enter__(self) -> Self:
        (port,) = free_ports(1)
        self.url = f"spark://{HOST}:{port}"
        self.master = self._daemon("master", "Master", "--port", str(port))
        self.master.wait_for("New state: ALIVE")
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in (*self.workers, self.master):
            if daemon.process.poll() is None:
                daemon.end()

    def add_worker(self) -> None:
        self.started += 1
        folder = self.folder / f"work-{self.started}"
        options = ("--port", "0", "--cores", "1", "--memory", "800m", "--work-dir", str(folder), self.url)
        worker = self._daemon(f"worker-{self.started}", "Worker", *options)
        self.workers.append(worker)
        worker.wait_for("Successfully registered with master")

    def kill_worker(self) -> None:
        """The oldest one, and with it its executor, as a machine that lost power."""
        worker = self.workers.pop(0)
        executors = self.executors(worker)
        worker.end(signal.SIGKILL)
        for executor in executors:
            _kill(executor)

    def kill_executor(self) -> None:
        """One that runs a task, if one does; its worker starts another."""
        _kill(min(self.busy() or self.executors()))

    def busy(self) -> list[int]:
        """Process ids of executors that run a task, by their own words."""
        return [pid for pid in self.executors() if self._tasks_of(pid)]

    def _tasks_of(self, executor: int) -> int:
        number = [
            command.partition("--executor-id ")[2].split()[0]
            for pid, _, command in processes()
            if pid == executor and "--executor-id " in command
        ]
        logs = [
            f.read_text(errors="replace") for n in number for f in self.folder.glob(f"work-*/*/{n}/stderr")
        ]
        return sum(words.count("Running task") - words.count("Finished task") for words in logs)

    def executors(self, worker: Daemon | None = None) -> list[int]:
        """Process ids of what workers run for applications."""
        parents = [w.process.pid for w in ([worker] if worker else self.workers)]
        return [pid for pid, parent, command in processes() if parent in parents and EXECUTOR in command]

    def _daemon(self, name: str, kind: str, *options: str) -> Daemon:
        log_file = self.folder / f"{name}.log"
        home = Path(pyspark.__file__).parent
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "TIDEMARK_"))}
        environment = {
            **kept,
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [*command, "--host", HOST, "--webui-port", "0", *options],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return Daemon(process, log_file, Watchdog(process.pid, f"org.apache.spark.deploy.{kind.lower()}"))


def processes() -> list[tuple[int, int, str]]:
    """Process id, parent's id and command line of all processes that are not dead."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    )
    found = [line.split(None, 3) for line in listed.stdout.splitlines()]
    return [(int(p[0]), int(p[1]), p[3]) for p in found if len(p) == 4 and not p[2].startswith("Z")]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
