"""The pages of dead letters: list, edit, dry run, replay, park. Payloads only for a person who is signed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidemark.console.dead_letter_service import DeadLetterService
from tidemark.console.payloads import payload_text, secret_names, text_of
from tidemark.console.people import fields_of, noted, who_of
from tidemark.console.rendering import page
from tidemark.contract import records
from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.errors import TidemarkError, UsageError
from tidemark.contract.failure_codes import FailureCode
from tidemark.dead_letters.listing import Place
from tidemark.dead_letters.replay import ReplayResult
from tidemark.monitoring.access import redirect

_STATUS_OF = {
    "park": DeadLetterStatus.PARKED,
    "discard": DeadLetterStatus.DISCARDED,
    "reopen": DeadLetterStatus.NEW,
}

_NOTICES = {"brought-in": "The table is up to the end of the topic."}
"""Notices by the name in the address: no page shows a text that a link contains."""


def dead_letter_routes(service: DeadLetterService) -> list[Route]:
    pages = DeadLetterPages(service)
    return [
        Route("/dead-letters", pages.listed, methods=["GET"]),
        Route("/dead-letters/letter", pages.one, methods=["GET"]),
        Route("/dead-letters/letter", pages.act, methods=["POST"]),
        Route("/dead-letters/bring-in", pages.bring_in, methods=["POST"]),
    ]


@dataclass(frozen=True)
class DeadLetterPages:
    service: DeadLetterService

    async def listed(self, request: Request) -> Response:
        service, asked = self.service, request.query_params
        stream = asked.get("stream") or (service.streams[0] if service.streams else "")
        code, status = asked.get("code") or None, asked.get("status") or None
        found: dict[str, Any] = {"tally": [], "letters": [], "older": None}
        after = Place.of(asked.get("after", ""))
        if stream:
            found["tally"] = await run_in_threadpool(service.tally, stream)
            found["letters"], found["older"] = await run_in_threadpool(
                service.listed, stream, code=code, status=status, after=after
            )
        return page(
            request,
            "dead_letters.html",
            streams=service.streams,
            stream=stream,
            code=code,
            status_asked=status,
            codes=[c.value for c in FailureCode],
            statuses=[s.value for s in DeadLetterStatus],
            notice=_NOTICES.get(asked.get("notice", "")),
            first=after is None,
            **found,
        )

    async def one(self, request: Request) -> Response:
        return await self._shown(request, *_named(request.query_params))

    async def act(self, request: Request) -> Response:
        fields = await fields_of(request)
        stream, dead_letter = _named(fields)
        value = fields["value"].replace("\r\n", "\n") if "value" in fields else None
        try:
            return await self._done(request, stream, dead_letter, fields, value)
        except TidemarkError as error:
            return await self._shown(
                request, stream, dead_letter, problem=error.message, value=value, http=400
            )

    async def bring_in(self, request: Request) -> Response:
        fields = await fields_of(request)
        stream = fields.get("stream", "")
        noted(request, "bring in dead letters", {"why": "asked for in the console", **fields}, stream=stream)
        await run_in_threadpool(self.service.bring_in, stream)
        query = {"stream": stream, "notice": "brought-in"}
        return redirect(request, f"/dead-letters?{urlencode(query)}")

    async def _done(
        self, request: Request, stream: str, dead_letter: str, fields: dict[str, str], value: str | None
    ) -> Response:
        """Does the form's action. Raises UsageError without a reason, and the errors of the service."""
        service, action = self.service, fields.get("action", "")
        who, why = noted(request, action, fields, stream=stream, dead_letter=dead_letter)
        if action in _STATUS_OF:
            status = _STATUS_OF[action]
            await run_in_threadpool(service.put, stream, dead_letter, status, by=who, why=why)
            return await self._shown(request, stream, dead_letter, done=f"It is {status.value} now.")
        if action not in ("dry-run", "replay"):
            raise UsageError(f"there is no action {action}")
        row = await run_in_threadpool(service.one, stream, dead_letter)
        before, exact = payload_text(row[records.PAYLOAD], self._secret(stream))
        edited = value if value is not None and not (exact and value == before) else None
        dry = action == "dry-run"
        replayed = await run_in_threadpool(
            service.replay, stream, dead_letter, value=edited, dry_run=dry, by=who, why=why
        )
        kept = value if dry or not replayed.resolved else None
        outcome, landed = _in_words(replayed), bool(replayed.resolved)
        return await self._shown(
            request,
            stream,
            dead_letter,
            value=kept,
            done=outcome if landed else None,
            problem=None if landed else outcome,
        )

    async def _shown(
        self,
        request: Request,
        stream: str,
        dead_letter: str,
        *,
        value: str | None = None,
        problem: str | None = None,
        done: str | None = None,
        http: int = 200,
    ) -> Response:
        """The page of one dead letter. `value` is the person's input, shown instead of the payload."""
        row = await run_in_threadpool(self.service.one, stream, dead_letter)
        signed_in, secret = who_of(request) is not None, self._secret(stream)
        text, exact = payload_text(row[records.PAYLOAD], secret) if signed_in else ("", False)
        return page(
            request,
            "dead_letter.html",
            status=http,
            stream=stream,
            dead_letter=row,
            coordinates=[(name, row[name]) for name in (records.TOPIC, *records.COORDINATES)],
            text=text if value is None else value,
            exact=exact,
            edit=row["edit"] if signed_in and not secret else None,
            note=row["status_note"] if signed_in else None,
            key=text_of(row[records.KEY])[0] if signed_in else "",
            headers=_headers(row) if signed_in else [],
            problem=problem,
            done=done,
        )

    def _secret(self, stream: str) -> frozenset[str]:
        return secret_names(self.service.settings.streams[stream])


def _named(fields: Mapping[str, str]) -> tuple[str, str]:
    return fields.get("stream", ""), fields.get("id", "")


def _headers(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (h["name"], text_of(None if h["value"] is None else bytes(h["value"]))[0])
        for h in row[records.HEADERS] or []
    ]


def _in_words(replayed: ReplayResult) -> str:
    codes, dry = ", ".join(replayed.codes), replayed.dry_run
    if replayed.resolved:
        return "It would land." if dry else "Resolved: its row is in the table."
    if replayed.parked:
        verb = "would fail" if dry else "failed"
        return f"It {verb} again ({codes}) and is parked after too many replays."
    if replayed.rejected:
        return f"It {'would be' if dry else 'was'} rejected again: {codes}."
    if replayed.waiting:
        return "The stream has not completed its batch yet: try again after the next one."
    if replayed.omitted:
        return "Its bytes were kept nowhere, so it cannot be replayed."
    return "There was nothing to replay: it is resolved or discarded."
