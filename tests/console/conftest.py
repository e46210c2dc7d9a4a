"""Brings the stream under test to this ring, and serves a console over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.stream_under_test import StreamUnderTest, stream

from tidemark.config.sections import MetricsSettings
from tidemark.console.serving import Serving, serving

__all__ = ["stream"]

TOKEN = "a-token-for-tests"


@pytest.fixture
def console() -> Iterator[Callable[..., Serving]]:
    """Serves the console of a stream under test: `console(stream)`."""
    with ExitStack() as running:

        def serve(flow: StreamUnderTest, *, every: float = 0.5, **at: Any) -> Serving:
            where = MetricsSettings.model_validate({"host": "127.0.0.1", "port": 0, "token": TOKEN, **at})
            return running.enter_context(serving(flow.settings(), lambda: flow.spark, at=where, every=every))

        yield serve
