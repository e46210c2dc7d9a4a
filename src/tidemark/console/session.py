"""Signing in to the console with the token, and signing out."""

from __future__ import annotations

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidemark.console.people import NAME_COOKIE, cookie_of, fields_of
from tidemark.console.rendering import page
from tidemark.monitoring.access import COOKIE, Token, redirect

SIGN_IN = "/sign-in"
_DAY = 86_400
_MOST_BYTES = 16 * 1024

log = structlog.get_logger("tidemark.console")


def session_routes(token: Token) -> list[Route]:
    async def form(request: Request) -> Response:
        return page(request, "sign_in.html", next=_local(request.query_params.get("next", "/")), problem=None)

    async def sign_in(request: Request) -> Response:
        # Anybody may send this form.
        fields = await fields_of(request, most=_MOST_BYTES)
        target, name = _local(fields.get("next", "/")), fields.get("name", "").strip()[:100]
        if not token.is_it(fields.get("token", "").strip()):
            log.warning("sign-in refused", who=name)
            return page(request, "sign_in.html", status=403, next=target, problem="That is not the token.")
        if not name:
            problem = "Give your name: it is logged with what you change."
            return page(request, "sign_in.html", status=400, next=target, problem=problem)
        answer = redirect(request, target)
        scheme = request.headers.get("x-forwarded-proto", request.scope["scheme"])
        for cookie, value in ((COOKIE, token.cookie), (NAME_COOKIE, cookie_of(name))):
            answer.set_cookie(
                cookie,
                value,
                max_age=_DAY,
                httponly=True,
                samesite="strict",
                secure=scheme == "https",
            )
        log.info("signed in", who=name)
        return answer

    async def sign_out(request: Request) -> Response:
        answer = redirect(request, "/")
        for cookie in (COOKIE, NAME_COOKIE):
            answer.delete_cookie(cookie)
        return answer

    return [
        Route(SIGN_IN, form, methods=["GET"]),
        Route(SIGN_IN, sign_in, methods=["POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
    ]


def _local(target: str) -> str:
    """The target if it is a path of the console, else `/`: a link must not redirect to another site."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"
