"""An HTTP server in a thread beside the work: it starts, or says why not, and never outlives its owner."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import TracebackType
from typing import Any, Self

import structlog
import uvicorn

from tidemark.contract.errors import UsageError

log = structlog.get_logger(__name__)


class HttpServer:
    """Serves one ASGI application. `port` 0 takes a free one; `url` says where it answers once started.

    `start` raises UsageError where the address cannot be taken. `stop` waits for what is being answered.
    """

    def __init__(self, app: Any, *, host: str, port: int) -> None:
        self._app, self._host, self._wanted = app, host, port
        self.port = port
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(self._host, self._host)
        return f"http://{host}:{self.port}"

    def start(self) -> Self:
        listening = _bound(self._host, self._wanted)
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=3,
        )
        self._server = server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[listening])), name="tidemark-http", daemon=True
        )
        self._thread.start()
        log.info("serving", url=self.url)
        return self

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the server has ended, after `seconds` at most."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def end(self) -> None:
        """Ask it to end; `wait` says when it has."""
        if self._server is not None:
            self._server.should_exit = True

    def stop(self) -> None:
        self.end()
        self.wait(10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            "is it in use? Choose another `metrics.port`, or 0 for any free one",
        ) from error
    listening.listen(128)
    return listening
