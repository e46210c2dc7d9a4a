"""A real Chromium, driven over the W3C WebDriver protocol by its own driver: no library in between."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, TAB, CONTROL = "\ue007", "\ue004", "\ue009"
_NAMES = (("chromedriver",), ("chromium", "chromium-browser", "google-chrome"))


class Browser:
    """One window. A machine without Chromium and its driver fails here, and says what to install."""

    def __init__(self, folder: Path, *, dark: bool = False) -> None:
        driver, chromium = (next((p for n in names if (p := shutil.which(n))), None) for names in _NAMES)
        assert driver, "no chromedriver: apt-get install chromium-driver (as .ci/run does)"
        assert chromium, "no Chromium: apt-get install chromium (as .ci/run does)"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._log = (folder / "chromedriver.log").open("wb")
        self._driver = subprocess.Popen(
            [driver, f"--port={port}"], stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={folder / 'profile'}",
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        ]
        always = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": chromium, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        try:
            self._await_driver()
            made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": always}})
        except BaseException:
            self._driver.kill()
            raise
        self._session = f"/session/{made['sessionId']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._ask("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(10)
            self._http.close()
            self._log.close()

    def open(self, url: str) -> None:
        self._ask("POST", f"{self._session}/url", {"url": url})

    def resize(self, width: int, height: int) -> None:
        """Sets what a page sees of the window, as a phone of that size would."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def prefer(self, scheme: str) -> None:
        self.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def command(self, name: str, **parameters: Any) -> Any:
        return self._ask("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def run(self, script: str, *arguments: Any) -> Any:
        body = {"script": script, "args": list(arguments)}
        return self._ask("POST", f"{self._session}/execute/sync", body)

    @property
    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    @property
    def path(self) -> str:
        return str(self.run("return location.pathname + location.search"))

    def keys(self, *keys: str, holding: str = "") -> None:
        """Types on whatever has the focus, as a keyboard does."""
        typed = [{"type": kind, "value": key} for key in "".join(keys) for kind in ("keyDown", "keyUp")]
        held = [{"type": "keyDown", "value": key} for key in holding]
        actions = [*held, *typed]
        body = {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        self._ask("POST", f"{self._session}/actions", body)
        # Lets go of what is still held.
        self._ask("DELETE", f"{self._session}/actions")

    def focused(self) -> str:
        """What has the focus, as a person hears it: tag, name or text."""
        return str(
            self.run(
                "const e = document.activeElement;"
                "return [e.tagName, e.name || '', (e.innerText || e.value || '').trim()].join(' ').trim()"
            )
        )

    def tab_to(self, wanted: str, *, most: int = 80) -> None:
        """Presses Tab until the focus is on what `wanted` names: nothing but the keyboard is used."""
        passed = []
        for _ in range(most):
            self.keys(TAB)
            if wanted in (found := self.focused()):
                return
            passed.append(found)
        raise AssertionError(f"Tab does not reach {wanted}; it passes {passed}")

    def wait_for(self, condition: Callable[[], Any], what: str, *, timeout: float = 30) -> Any:
        deadline = time.monotonic() + timeout
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout} s: {what}; the page at {self.path}:\n{self.text}")
            time.sleep(0.1)
        return found

    def wait_for_text(self, *texts: str, timeout: float = 30) -> None:
        self.wait_for(lambda: all(t in self.text for t in texts), f"{texts}", timeout=timeout)

    def scrolls_sideways(self) -> bool:
        return bool(self.run("return document.documentElement.scrollWidth > window.innerWidth"))

    def errors(self) -> list[str]:
        """What the browser's console holds of errors since the last look."""
        found = self._ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [str(e["message"]) for e in found if e["level"] == "SEVERE"]

    def rendering(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def _await_driver(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                if self._ask("GET", "/status")["ready"]:
                    return
            except httpx.TransportError:
                assert self._driver.poll() is None, "chromedriver ended by itself"
            assert time.monotonic() < deadline, "chromedriver does not answer"
            time.sleep(0.1)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._http.request(method, path, json=body if method == "POST" else None)
        value = answer.json()["value"]
        assert answer.status_code == 200, f"{method} {path}: {value}"
        return value
