"""Access to the HTTP endpoints: on loopback every user of this machine may read, elsewhere a token is needed.

A write needs the token everywhere. Routes that show payloads check `Token.allows` themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response

COOKIE = "tidemark-console"
_SAFE_METHODS = frozenset({"GET", "HEAD"})

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Token:
    """The secret of the endpoints. Compared in constant time, never printed."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return "Token(********)"

    @property
    def cookie(self) -> str:
        """The cookie of a signed-in browser, derived from the token."""
        return self.mark("session")

    def mark(self, purpose: str) -> str:
        return hmac.new(self._secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def is_it(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._secret.encode())

    def allows(self, connection: HTTPConnection) -> bool:
        """Whether the request carries the token (`Authorization: Bearer …`) or its cookie."""
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_it(given.strip()):
            return True
        return hmac.compare_digest(connection.cookies.get(COOKIE, "").encode(), self.cookie.encode())


class Authentication:
    """ASGI middleware. Off loopback, all paths but `open_paths` and `sign_in` need the token; a write needs it
    everywhere, and a browser's write must come from a page of this application. On loopback the Host header must
    name this machine, or a foreign page could read the endpoints under its own name (DNS rebinding).
    """

    def __init__(
        self,
        app: App,
        *,
        token: Token | None,
        loopback: bool,
        open_paths: frozenset[str] = frozenset(),
        sign_in: str | None = None,
    ) -> None:
        self._app, self._token, self._loopback = app, token, loopback
        self._open, self._sign_in = open_paths, sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refusal = self._refusal(connection)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _refusal(self, connection: HTTPConnection) -> Response | None:
        host = _host_name(connection)
        if self._loopback and not _is_loopback(host):
            return _problem(421, f"{host} is not this machine's name: use 127.0.0.1")
        writes = connection.scope["method"] not in _SAFE_METHODS
        if writes and not _from_our_page(connection):
            return _problem(403, "sent by a page of another origin")
        # Not `url.path`: a URL is built from the Host header, which the client controls.
        path = connection.scope["path"]
        if path == self._sign_in or (not writes and (self._loopback or path in self._open)):
            return None
        if self._token is not None and self._token.allows(connection):
            return None
        if self._sign_in and "text/html" in connection.headers.get("accept", ""):
            return redirect(connection, f"{self._sign_in}?{urlencode({'next': path})}")
        return _problem(401, "a token is needed: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})


def home_of(connection: HTTPConnection) -> str:
    """The relative path from the requested page to the application's root, such as `../`. Links start with it, so
    that they work behind a proxy that serves the application under a path of its own.
    """
    asked: bytes = connection.scope.get("raw_path") or connection.scope["path"].encode()
    # A fragment is shown in the page whose path it has.
    return "../" * (asked.removeprefix(b"/fragments").count(b"/") - 1) or "./"


def redirect(connection: HTTPConnection, path: str) -> Response:
    """To another page, by GET. `path` begins with `/`."""
    return RedirectResponse(home_of(connection) + path[1:], 303)


def _host_name(connection: HTTPConnection) -> str:
    host = connection.headers.get("host", "")
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()


def _is_loopback(host: str) -> bool:
    """By address, not by text: `127.evil.example` is a name that its owner can point anywhere."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _from_our_page(connection: HTTPConnection) -> bool:
    """A browser names the origin of a write in headers that no page can set; a program sends none.

    Behind a proxy (a Databricks App) the host of the page's address is the forwarded one.
    """
    headers = connection.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None or origin is None:
        return site in ("same-origin", "none", None)
    return urlsplit(origin).netloc in (headers.get("host"), headers.get("x-forwarded-host"))


def _problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    body = {"status": status, "detail": detail}
    return JSONResponse(body, status, headers, media_type="application/problem+json")
