"""The progress of a listener or worker: one line updated in place for a person, JSON lines for a program."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict
from typing import Self

import typer
from rich.console import Console
from rich.status import Status as Spinner

from tidemark.listener.listener import AtLeastOnceListener, Totals


class Progress:
    """`show` takes the running totals. On a terminal it updates one line; elsewhere only the end is printed."""

    def __init__(self, name: str, *, as_json: bool, every: float = 1.0) -> None:
        self._name = name
        self._as_json = as_json
        self._every = every
        self._console = Console(stderr=True)
        self._spinner = Spinner(f"{name}: waiting", console=self._console)
        self._totals = Totals()
        self._printed_at = 0.0
        self._changed_at = time.monotonic()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if not self._as_json and self._console.is_terminal:
            self._spinner.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._spinner.stop()
        if self._as_json:
            typer.echo(json.dumps({"name": self._name, **asdict(self._totals), "final": True}))
        else:
            self._console.print(self._line())

    def show(self, totals: Totals) -> None:
        self._totals = totals
        self._changed_at = time.monotonic()
        if self._changed_at - self._printed_at < self._every:
            return
        self._printed_at = self._changed_at
        if self._as_json:
            typer.echo(json.dumps({"name": self._name, **asdict(totals)}))
        else:
            self._spinner.update(self._line())

    def end_when_idle(self, seconds: float | None, listener: AtLeastOnceListener) -> None:
        """Stops it once it was not busy and the totals have not changed for so many seconds; never if None."""
        if seconds is None:
            return

        def watch() -> None:
            while not self._ended.wait(0.2):
                if listener.busy:
                    self._changed_at = time.monotonic()
                elif time.monotonic() - self._changed_at >= seconds:
                    listener.stop()
                    return

        threading.Thread(target=watch, name="idle", daemon=True).start()

    def _line(self) -> str:
        t = self._totals
        return f"{self._name}: {t.done} done, {t.failed} failed attempts, {t.dead_lettered} dead-lettered"
