"""A schema registry over HTTP, for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


V1 = record({"name": "a", "type": "int"})
V2 = record({"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": "none"})


class Registry:
    """A registry that counts what it is asked, and can be broken. `answers`: whole answers by path."""

    def __init__(self) -> None:
        self.schemas: dict[int, Any] = {1: V1, 2: V2}
        self.answers: dict[str, Any] = {}
        self.status: int | None = None
        self.asked: list[str] = []
        self.after_asking: Callable[[int], None] = lambda schema_id: None
        outer = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                number = int(self.path.rsplit("/", 1)[1])
                known = outer.schemas.get(number) if self.path.startswith("/schemas/ids/") else None
                found = outer.answers.get(self.path, known and {"schema": json.dumps(known)})
                status = outer.status or (200 if found else 404)
                outer.after_asking(number)
                self.send_response(status)
                self.end_headers()
                if status == 200:
                    self.wfile.write(json.dumps(found).encode())

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + body
