"""The page templates, and their filters for numbers, ages and times."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from tidemark.console.charts import HEIGHT, WIDTH
from tidemark.console.people import who_of
from tidemark.monitoring.access import home_of

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def count(value: float) -> str:
    """`1,234`; a rate below 100 keeps one decimal."""
    return f"{value:,.1f}" if 0 < value < 100 and value != int(value) else f"{value:,.0f}"


def age(seconds: float | None) -> str:
    """`12 s`, `3 min`, `5 h`, `2 d`."""
    if seconds is None:
        return "never"
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def moment(value: datetime | float | None) -> str:
    """UTC, to the second."""
    if value is None:
        return "–"
    at = value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S")


def _as_json(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False, indent=2)


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tidemark.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(count=count, age=age, moment=moment, pretty=_as_json)
    made.globals.update(now=time.time, chart_width=WIDTH, chart_height=HEIGHT)
    return made


TEMPLATES = environment()


def page(request: Request, template: str, /, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A rendered template. Every template has the signed-in person, its path, the path `home` and the name of the
    application.
    """
    text = TEMPLATES.get_template(template).render(
        path=request.scope["path"],
        home=home_of(request),
        who=who_of(request),
        application=request.app.state.application,
        **values,
    )
    return HTMLResponse(text, status, HEADERS)
