"""An S3 server with a door before it at which tests make requests fail."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from moto.server import ThreadedMotoServer

COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")


@dataclass(frozen=True)
class Request:
    method: str
    path: str

    @property
    def is_commit(self) -> bool:
        return self.method == "PUT" and COMMIT.search(self.path) is not None


@dataclass(frozen=True)
class Answer:
    """`status` 0 resets the connection; `delay` is before anything; `after` does what was asked first."""

    status: int = 200
    code: str = ""
    delay: float = 0.0
    after: bool = False


Fault = Callable[[Request], Answer | None]


@dataclass
class FaultyS3:
    """`fault` decides on each request; None lets it through. `before_commit` runs ahead of the next
    commit, once, when `committing` is its body.
    """

    endpoint: str
    fault: Fault | None = None
    hit: int = 0
    before_commit: Callable[[], None] | None = None
    committing: bytes = b""
    # The server looks and then writes, so that two conditional writes at once could both succeed.
    one_write: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, answer: Answer, *, times: int = 1_000_000, only_commits: bool = False) -> None:
        """The next `times` requests that count get `answer`."""
        self.hit = 0
        lock = threading.Lock()

        def decide(request: Request) -> Answer | None:
            if only_commits and not request.is_commit:
                return None
            with lock:
                self.hit += 1
                return answer if self.hit <= times else None

        self.fault = decide

    def heal(self) -> None:
        self.fault = None


@contextmanager
def faulty_s3() -> Iterator[FaultyS3]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    control = FaultyS3(endpoint="")

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self._body()
            request = Request(self.command, self.path.partition("?")[0])
            if request.is_commit and control.before_commit is not None:
                hook, control.before_commit = control.before_commit, None
                control.committing = body
                hook()
            answer = control.fault(request) if control.fault else None
            if answer is not None:
                time.sleep(answer.delay)
                if answer.after:
                    self._forward(body)
                if answer.status != 200:
                    self._refuse(answer)
                    return
            status, headers, content = self._forward(body)
            self._answer(status, headers, content)

        do_PUT = do_HEAD = do_POST = do_DELETE = do_GET

        def _body(self) -> bytes:
            if (self.headers.get("Expect") or "").lower() == "100-continue":
                pass
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            read = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                read += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return read

        def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(host, port, timeout=60)
            kept = ("transfer-encoding", "connection", "expect", "content-length")
            headers = {k: v for k, v in self.headers.items() if k.lower() not in kept}
            headers["Content-Length"] = str(len(body))
            with control.one_write if self.command == "PUT" else threading.Lock():
                connection.request(self.command, self.path, body, headers)
                response = connection.getresponse()
                content = response.read()
            connection.close()
            return response.status, response.getheaders(), content

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            lengths = [v for k, v in headers if k.lower() == "content-length"]
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            head = self.command == "HEAD"
            self.send_header("Content-Length", lengths[0] if head and lengths else str(len(content)))
            self.end_headers()
            if not head:
                self.wfile.write(content)

        def _refuse(self, answer: Answer) -> None:
            self.close_connection = True
            if answer.status == 0:
                now = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
                self.connection.close()
                return
            content = f"<Error><Code>{answer.code}</Code><Message>{answer.code}</Message></Error>".encode()
            self._answer(answer.status, [("Content-Type", "application/xml")], content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    door = Quiet(("127.0.0.1", 0), Door)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    control.endpoint = f"http://127.0.0.1:{door.server_port}"
    try:
        yield control
    finally:
        door.shutdown()
        door.server_close()
        server.stop()
