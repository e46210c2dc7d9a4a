"""A Kafka broker for the length of a `with` block, for tests, demos and benchmarks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tidemark.dev.kafka_server import BrokerFailed, KafkaServer, free_ports
from tidemark.dev.watchdog import Watchdog


class EmbeddedBroker:
    """One Kafka node on 127.0.0.1 with its own ports and data.

        with EmbeddedBroker() as broker:
            client = AdminClient({"bootstrap.servers": broker.bootstrap})

    It ends with the block, and with this process even if that is killed. Without `folder` the data is
    deleted too. After `kill` or `stop`, `start` starts the same broker again: same ports, same data.
    `listeners={"SASL": "SASL_PLAINTEXT"}` adds listeners, see `address`; `properties` are further entries of
    `server.properties`.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int | None = None,
        listeners: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
    ) -> None:
        self._temporary = folder is None
        self._folder = (
            Path(tempfile.mkdtemp(prefix="tidemark-broker-")) if folder is None else folder.absolute()
        )
        self._port = port
        self._listeners = dict(listeners or {})
        self._properties = dict(properties or {})
        self._heap = heap
        self._server = self._placed()
        self._started_once = False
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    @property
    def bootstrap(self) -> str:
        """`host:port` of the PLAINTEXT listener; it does not change after the first start."""
        return self._server.bootstrap

    def address(self, listener: str) -> str:
        """`host:port` of one of `listeners`."""
        return self._server.address(listener)

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def log_file(self) -> Path:
        return self._server.log_file

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, timeout: float = 60) -> Self:
        """Returns once the broker answers. Starting a running one changes nothing.

        Raises:
            BrokerFailed: it does not start; the end of its log is in the message.
        """
        if self.running:
            return self
        for attempt in range(3):
            try:
                self._launch(timeout)
                break
            except BrokerFailed:
                self._end(signal.SIGKILL, 10)
                # Another process took the port; a broker that clients know cannot change its own.
                in_use = "Address already in use" in self._server.log_tail(60)
                if attempt == 2 or self._started_once or not in_use:
                    raise
                self._server = self._placed()
        self._started_once = True
        return self

    def stop(self, *, timeout: float = 15) -> None:
        """Ends the broker in order, by force after `timeout` seconds. The data stays."""
        self._end(signal.SIGTERM, timeout)

    def close(self) -> None:
        """`stop`, then delete a temporary folder."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """Ends the broker as a crash does; `start` starts it again on the same data."""
        self._end(signal.SIGKILL, 10)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freezes it (SIGSTOP): connections stay open without an answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _placed(self) -> KafkaServer:
        port, controller, *others = free_ports(2 + len(self._listeners))
        return KafkaServer(
            folder=self._folder,
            port=self._port or port,
            controller_port=controller,
            listeners=self._listeners,
            listener_ports=dict(zip(self._listeners, others, strict=True)),
            properties=self._properties,
            heap=self._heap,
        )

    def _launch(self, timeout: float) -> None:
        self._server.prepare()
        self._process = self._server.launch()
        self._watchdog = Watchdog(
            self._process.pid,
            str(self._server.properties_file),
            remove=self._folder if self._temporary else None,
        )
        self._server.wait_until_ready(self._process, timeout)

    def _signal(self, number: int) -> None:
        if self._process is None or self._process.poll() is not None:
            raise BrokerFailed("the broker is not running", hint="call start() first")
        os.kill(self._process.pid, number)

    def _end(self, number: int, timeout: float) -> None:
        process, watchdog = self._process, self._watchdog
        self._process = self._watchdog = None
        if process is not None and process.poll() is None:
            # A paused process handles the signal only after it continues.
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        if watchdog is not None:
            watchdog.dismiss()
