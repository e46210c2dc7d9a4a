"""The person behind a request: every write in the console is logged with a name and a reason."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote

import structlog
from starlette.requests import Request

from tidemark.contract.errors import UsageError
from tidemark.monitoring.access import Token

NAME_COOKIE = "tidemark-name"
MOST_BODY_BYTES = 4 * 1024 * 1024
MOST_FIELDS = 50

log = structlog.get_logger("tidemark.console")


class FormTooLarge(UsageError):
    """More bytes than any form of the console needs."""


def who_of(request: Request) -> str | None:
    """The name of the person who is signed in, or None. A Databricks App's proxy names the person in a header."""
    token: Token = request.app.state.token
    if not token.allows(request):
        return None
    named = request.headers.get("x-forwarded-email") or unquote(request.cookies.get(NAME_COOKIE, ""))
    return (named or request.headers.get("x-requested-by") or "bearer of the token")[:100]


def cookie_of(name: str) -> str:
    return quote(name)


async def fields_of(request: Request, *, most: int = MOST_BODY_BYTES) -> dict[str, str]:
    """The fields of a form, of repeated names the last. Raises FormTooLarge beyond `most` bytes or MOST_FIELDS."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise FormTooLarge(
                f"the form is larger than {most} bytes",
                "fix a value that large with `tidemark dead-letters replay --edit`",
            )
    text = body.decode("utf-8", errors="replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise FormTooLarge(f"the form has more than {MOST_FIELDS} fields") from error


def noted(request: Request, action: str, fields: dict[str, str], **what: object) -> tuple[str, str]:
    """Logs a write before it happens; returns the name and the reason. Raises UsageError without a reason."""
    why = fields.get("why", "").strip()[:500]
    if not why:
        raise UsageError("give a reason: it is logged with the change")
    who = who_of(request) or "unknown"
    log.info("console write", action=action, who=who, why=why, **what)
    return who, why
