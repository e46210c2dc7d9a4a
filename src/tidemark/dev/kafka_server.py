"""A one-node Kafka (KRaft, no ZooKeeper): its folder, its settings, its process."""

from __future__ import annotations

import base64
import os
import random
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import IO

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.contract.errors import TidemarkError
from tidemark.platform.jvm.environment import temporary_option
from tidemark.platform.jvm.jars import jar_paths
from tidemark.platform.jvm.java import find_java

HOST = "127.0.0.1"


class BrokerFailed(TidemarkError):
    condition = "TIDEMARK_BROKER"


@dataclass(frozen=True)
class KafkaServer:
    """One broker's folder and ports. `listeners` are added to `PLAINTEXT`, by name and protocol.

    `properties` override the defaults in `server.properties`.
    """

    folder: Path
    port: int
    controller_port: int
    listeners: Mapping[str, str] = field(default_factory=dict)
    listener_ports: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    heap: str = "512m"

    @property
    def properties_file(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.log"

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.listener_ports[listener]}"

    def prepare(self) -> None:
        """Writes the configuration and, in a new folder, formats the storage. Existing data does not change."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self._settings()
        self.properties_file.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        if all((Path(d) / "meta.properties").exists() for d in settings["log.dirs"].split(",")):
            return
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        arguments = ("format", f"--cluster-id={cluster_id}", "--ignore-formatted")
        answer = subprocess.run(
            [*self._java(), "kafka.tools.StorageTool", *arguments, "--config", str(self.properties_file)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if answer.returncode != 0:
            raise BrokerFailed(
                f"Kafka could not format {settings['log.dirs']}: {(answer.stderr or answer.stdout)[-2000:]}"
            )

    def launch(self) -> subprocess.Popen[bytes]:
        """Starts the process, see `wait_until_ready`. Its output is appended to the log."""
        log: IO[bytes]
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                [*self._java(), "kafka.Kafka", str(self.properties_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                # Ctrl-C in the terminal must not end the broker before its clients.
                start_new_session=True,
            )

    def wait_until_ready(self, process: subprocess.Popen[bytes], timeout: float = 60) -> None:
        """Returns once the broker answers a client.

        Raises:
            BrokerFailed: it ended, or did not answer in time; with the end of its log.
        """
        deadline = time.monotonic() + timeout
        problem = f"the broker did not answer on {self.bootstrap} within {timeout:.0f} s"
        while time.monotonic() < deadline:
            if process.poll() is not None:
                problem = f"the broker ended with status {process.returncode}"
                break
            if self.answers():
                return
            time.sleep(0.05)
        raise BrokerFailed(f"{problem}:\n{self.log_tail()}", f"its whole log is {self.log_file}")

    def answers(self, timeout: float = 2) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.5)
            if probe.connect_ex((HOST, self.port)) != 0:
                return False
        try:
            client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            return bool(client.list_topics(timeout=timeout).brokers)
        except KafkaException:
            return False

    def log_tail(self, lines: int = 20) -> str:
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def _java(self) -> list[str]:
        log4j = resources.files("tidemark.dev").joinpath("broker_log4j2.properties")
        classpath = os.pathsep.join(str(jar) for jar in jar_paths("broker"))
        return [
            str(find_java().executable),
            *(f"-Xmx{self.heap}", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-Duser.timezone=UTC", temporary_option()),
            f"-Dlog4j2.configurationFile={log4j}",
            *("-cp", classpath),
        ]

    def _settings(self) -> dict[str, str]:
        bound = {"PLAINTEXT": self.port} | dict(self.listener_ports)
        addresses = {name: f"{name}://{HOST}:{port}" for name, port in bound.items()}
        controller = f"{HOST}:{self.controller_port}"
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | dict(self.listeners)
        one = dict.fromkeys(
            (
                "offsets.topic.replication.factor",
                "transaction.state.log.replication.factor",
                "transaction.state.log.min.isr",
                "share.coordinator.state.topic.replication.factor",
                "share.coordinator.state.topic.min.isr",
                # On one node the default of fifty partitions each only means more open files.
                "offsets.topic.num.partitions",
                "transaction.state.log.num.partitions",
                "share.coordinator.state.topic.num.partitions",
            ),
            "1",
        )
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*addresses.values(), f"CONTROLLER://{controller}"]),
            "advertised.listeners": ",".join(addresses.values()),
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            **one,
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            # A killed broker can join again only after its former session has ended.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "250",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
            **self.properties,
        }


def free_ports(count: int) -> list[int]:
    """Free ports below the range that the system gives to outgoing connections.

    So the port of a broker that is down for a moment stays free.
    """
    # Not the shared generator: two processes with the same seed would choose the same ports.
    chance = random.SystemRandom()
    taken: list[socket.socket] = []
    try:
        while len(taken) < count:
            candidate = socket.socket()
            try:
                candidate.bind((HOST, chance.randrange(15_000, 30_000)))
                taken.append(candidate)
            except OSError:
                candidate.close()
        return [s.getsockname()[1] for s in taken]
    finally:
        for s in taken:
            s.close()
