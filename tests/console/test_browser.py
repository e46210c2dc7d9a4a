"""The console in a real Chromium over a real ingest, by keyboard alone.

`TIDEMARK_SCREENSHOTS=docs` takes the pictures of the documentation again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.console.browser import CONTROL, ENTER, TAB, Browser
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.console.serving import Serving
from tidemark.ingest.application import Ingest


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path) as found:
        yield found


NAMES_OF_A_READER = """
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) for (const [from, to] of arguments[0])
    walk.currentNode.data = walk.currentNode.data.replaceAll(from, to);
"""


@pytest.fixture
def rendering(browser: Browser, tmp_path: Path) -> Callable[[str, StreamUnderTest], None]:
    """Takes a picture in which the folder and topic of a test have names that a reader knows."""
    folder = Path(os.environ.get("TIDEMARK_SCREENSHOTS") or tmp_path)

    def take(name: str, flow: StreamUnderTest) -> None:
        browser.run(NAMES_OF_A_READER, [[f"{flow.folder}/", ""], [flow.topic, "user.events.v1"]])
        browser.rendering(folder / f"console-{name}.png")

    return take


@pytest.fixture
def running() -> Iterator[Callable[[StreamUnderTest], None]]:
    """Keeps an ingest of the stream running until the test ends."""
    started: list[tuple[Ingest, threading.Thread]] = []

    def run(flow: StreamUnderTest) -> None:
        ingest = Ingest(flow.spark, flow.settings())
        thread = threading.Thread(target=ingest.run, daemon=True)
        thread.start()
        started.append((ingest, thread))

    yield run
    for ingest, thread in started:
        ingest.stop()
        thread.join(60)


def test_lag_is_seen_and_a_dead_letter_fixed_when_only_the_keyboard_is_used(
    stream: Callable[..., StreamUnderTest],
    console: Callable[..., Serving],
    browser: Browser,
    rendering: Callable[[str, StreamUnderTest], None],
    running: Callable[[StreamUnderTest], None],
) -> None:
    flow = stream(partitions=2)
    flow.produce(*[good(n) for n in range(200)], BAD, b'{"id": 1', b"{")
    serving = console(flow)
    browser.resize(1100, 860)
    browser.open(serving.server.url)
    browser.wait_for_text(NAME, "Lag: 203")

    running(flow)
    browser.wait_for_text("Lag: 0", timeout=60)
    browser.wait_for(
        lambda: browser.run("return document.querySelectorAll('svg polyline').length") == 2, "charts"
    )
    rendering("streams", flow)

    browser.tab_to("Sign in")
    browser.keys(ENTER)
    browser.wait_for(lambda: "/sign-in" in browser.path, "the form to sign in")
    browser.tab_to("INPUT token")
    browser.keys(serving.token, TAB)
    assert browser.focused().startswith("INPUT name")
    browser.keys("Ann", ENTER)
    browser.wait_for_text("Sign out")

    browser.tab_to("Dead letters")
    browser.keys(ENTER)
    browser.wait_for_text("Letters", timeout=60)
    browser.tab_to("Bring in")
    browser.keys(ENTER)
    browser.wait_for_text("The newest 3", timeout=90)
    browser.tab_to("SELECT code")
    browser.keys("TYPE_M")
    browser.tab_to("Filter")
    browser.keys(ENTER)
    browser.wait_for_text("The newest 1")
    assert "code=TYPE_MISMATCH" in browser.path
    rendering("dead-letters", flow)

    coordinates = browser.run("return document.querySelector('h2 ~ div td a').innerText")
    browser.run("document.querySelector('main').focus()")
    browser.tab_to(f"A  {coordinates}")
    browser.keys(ENTER)
    browser.wait_for_text("TYPE_MISMATCH", "not a number")
    act(browser, "Try, changing nothing", why="what would happen")
    browser.wait_for_text("It would be rejected again: TYPE_MISMATCH", timeout=90)
    fix(browser, '{"id": 201, "name": "fixed by Ann"}')
    act(browser, "Replay", why="the sender sent text")
    browser.wait_for_text(
        "Resolved: its row is in the table.", "resolved", "Ann: the sender sent text", timeout=90
    )
    rendering("dead-letter", flow)
    assert 201 in flow.ids()

    browser.resize(375, 740)
    for path in ("/", f"/streams/{NAME}", "/dead-letters", "/report-requests", browser.path):
        browser.open(f"{serving.server.url}{path}")
        browser.wait_for_text("Tidemark")
        assert not browser.scrolls_sideways(), path
    browser.prefer("dark")
    browser.open(serving.server.url)
    browser.wait_for_text("Lag: 0", "Rejected and open: MALFORMED_JSON", timeout=60)
    rendering("phone-dark", flow)
    colour = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in colour[4:-1].split(",")) < 150, colour
    assert browser.errors() == []


def fix(browser: Browser, value: str) -> None:
    """Replaces the payload in the form, as a person who selects all and types."""
    browser.run("document.querySelector('main').focus()")
    browser.tab_to("TEXTAREA value")
    browser.keys("a", holding=CONTROL)
    browser.keys(value)


def act(browser: Browser, button: str, *, why: str) -> None:
    browser.run("document.querySelector('main').focus()")
    browser.tab_to("INPUT why")
    browser.keys(why)
    browser.tab_to(f"BUTTON action {button}")
    browser.keys(ENTER)
