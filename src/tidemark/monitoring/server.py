"""An HTTP server in a background thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any, Self

import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidemark.contract.errors import UsageError

log = structlog.get_logger(__name__)


MOST_CONNECTIONS = 200
REQUEST_WITHIN = 15.0
"""Seconds in which a client has to send a request with its body, and to take each part of an answer."""


class Connection(H11Protocol):
    """A client's connection. Idle and slow clients must not use up the file handles of a process that lands
    records: their connections are closed after `REQUEST_WITHIN`, or, the one with the longest wait first, when a
    new client connects and there are `MOST_CONNECTIONS`.

    uvicorn's own limits do not do this: they count a connection only from its first answer on, and refuse the
    newest connection.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        super().connection_made(transport)
        self.waited_since = self.loop.time()
        self._look_again()
        # One that is hung up on counts until its turn in the loop: of many new clients at once, each takes another's.
        connected = [c for c in self.connections if not c.transport.is_closing()]
        waited_for = [c for c in connected if isinstance(c, Connection) and c.waited_for]
        if len(connected) > MOST_CONNECTIONS and waited_for:
            min(waited_for, key=lambda c: c.waited_since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.waited_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.waited_since = self.loop.time()
        super().pause_writing()

    @property
    def waited_for(self) -> bool:
        """Whether the server waits for the client, to send (the rest of) a request or to take an answer."""
        asked = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return not asked or self.flow.write_paused

    def _look_again(self) -> None:
        if self.waited_for and self.loop.time() - self.waited_since >= REQUEST_WITHIN:
            self.transport.abort()
            return
        self._look = self.loop.call_later(REQUEST_WITHIN / 3, self._look_again)


class HttpServer:
    """Serves one ASGI application. `port` 0 takes a free one; `url` is valid once started.

    `start` raises UsageError where it cannot listen on the address. `stop` waits for running requests.
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
            http=Connection,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
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
        """Ask it to end; see `wait`."""
        if self._server is not None:
            self._server.should_exit = True

    def stop(self) -> None:
        self.end()
        self.wait(10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
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
