"""What the console answers to input that no page of its own would send."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.console.conftest import TOKEN
from tests.stream_under_test import NAME, StreamUnderTest, good

from tidemark.console import dead_letter_service
from tidemark.console.serving import Serving

ALLOWED = {"Authorization": f"Bearer {TOKEN}"}
AS_PAGE = {"Accept": "text/html"}
SCRIPT = b"<script>alert(1)</script>"
WHY = {"why": "fixed by the producer"}


def dead_letters_of(flow: StreamUnderTest) -> dict[int, str]:
    """Offset → id of each dead letter in the table."""
    rows = flow.spark.read.format("delta").load(f"{flow.table.path}_dlq").collect()
    return {r["stream_offset"]: r["letter_id"] for r in rows}


def within(seconds: float, condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def test_each_wrong_request_has_a_clear_answer_and_no_payload_acts_in_a_page(
    stream: Callable[..., StreamUnderTest],
    console: Callable[..., Serving],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = stream()
    flow.produce(good(1), SCRIPT, b'{"id": "<img src=x onerror=alert(1)>"}')
    flow.land()
    with httpx.Client(base_url=console(flow).server.url, timeout=60) as client:

        def page(dead_letter: str, stream_: str = NAME) -> httpx.Response:
            return client.get(
                "/dead-letters/letter", params={"stream": stream_, "id": dead_letter}, headers=ALLOWED
            )

        def act(dead_letter: str, **fields: str) -> httpx.Response:
            form = {"stream": NAME, "id": dead_letter, **fields}
            return client.post("/dead-letters/letter", data=form, headers=ALLOWED)

        assert client.post("/dead-letters/bring-in", data={"stream": NAME}).status_code == 401
        for token in ("Bearer wrong", "Bearer", "Basic abc", "Bearer \u00fc".encode("latin-1")):
            answer = client.post("/dead-letters/bring-in", headers={"Authorization": token})
            assert (answer.status_code, "a token is needed" in answer.text) == (401, True)
        client.post("/dead-letters/bring-in", data={"stream": NAME}, headers=ALLOWED)
        gauge = f'tidemark_dead_letters_open{{stream="{NAME}"}} 2.0'
        assert within(20, lambda: gauge in client.get("/actuator/prometheus").text)
        dead_letters = dead_letters_of(flow)
        # Page after page, each dead letter once; an invalid place is the first page.
        monkeypatch.setattr(dead_letter_service, "MOST_LISTED", 1)
        first = client.get("/dead-letters", params={"stream": NAME}).text
        older = html.unescape(re.findall(r'rel="next" href="./([^"]+)"', first)[0])
        second = client.get(older).text
        offsets = [re.findall(r">0 : (\d+)</a>", text) for text in (first, second)]
        assert sorted(found for page_ in offsets for found in page_) == ["1", "2"]
        assert ('rel="next"' in second, ">Newest</a>" in second) == (False, True)
        for place in ("~", "x~y", "9" * 40 + "~a", "' OR 1=1~--"):
            assert client.get("/dead-letters", params={"stream": NAME, "after": place}).status_code == 200
        listed = client.get("/dead-letters", params={"stream": NAME, "notice": "Your token expired"}).text
        assert "Your token expired" not in listed, "no link puts words into the page"
        shown = page(dead_letters[1]).text + page(dead_letters[2]).text
        assert "&lt;script&gt;alert(1)" in shown
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
        assert (
            "alert(1)"
            not in client.get("/dead-letters/letter", params={"stream": NAME, "id": dead_letters[1]}).text
        )  # payloads are for those who signed in
        # So are notes: who replays quotes a payload there, and so does a replay that fails.
        assert "parked now" in act(dead_letters[2], action="park", why="her card is 4111").text
        assert "her card is 4111" in page(dead_letters[2]).text
        asked = {"stream": NAME, "id": dead_letters[2]}
        unsigned = client.get("/dead-letters/letter", params=asked).text
        assert ("parked" in unsigned, "her card" in unsigned) == (True, False)
        for dead_letter in ("../../../etc/passwd", "' OR 1=1 --", "\0", "é" * 2000, ""):
            answer = page(dead_letter)
            assert (answer.status_code, "there is no dead letter" in answer.text) == (404, True)
        answer = page(dead_letters[1], "nowhere")
        assert (answer.status_code, answer.json()["hint"]) == (404, f"there are {NAME}")
        assert (
            client.get("/dead-letters", params={"stream": SCRIPT.decode()}, headers=AS_PAGE).status_code
            == 404
        )
        assert SCRIPT.decode() not in client.get("/dead-letters", params={"code": SCRIPT.decode()}).text
        for path in ("/static/..%2f..%2f..%2fpyproject.toml", "/static/../../contract/errors.py", "/%00"):
            assert client.get(path).status_code == 404, path
        large = act(dead_letters[1], action="replay", value="x" * 5_000_000, **WHY)
        assert (large.status_code, "larger than" in large.text) == (413, True)
        assert "give a reason" in act(dead_letters[1], action="replay").text
        assert "there is no action explode" in act(dead_letters[1], action="explode", **WHY).text
        assert act("nothing", action="park", **WHY).status_code == 404
        # What Spark would take for a variable is text, as everything a person types.
        edited = '{"id": 7, "name": "it\'s ${env:HOME} \\\\ ${spark.app.name}"}'
        assert "Resolved" in act(dead_letters[1], action="replay", value=edited, **WHY).text
    flow.options["fields"] = {"id": {"secret": True}}
    with httpx.Client(base_url=console(flow).server.url, timeout=60, headers=ALLOWED) as client:
        hidden = client.get("/dead-letters/letter", params={"stream": NAME, "id": dead_letters[2]}).text
        (payload,) = re.findall(r"<pre>(.*?)</pre>", hidden, re.DOTALL)
        assert json.loads(html.unescape(payload)) == {"id": "********"}
        assert "<textarea" not in hidden, "what is masked cannot be sent back"
    landed = {r["id"]: r["name"] for r in flow.rows.collect()}
    assert landed[7] == "it's ${env:HOME} \\ ${spark.app.name}"
