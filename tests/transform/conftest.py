"""Decoding is tested the way it runs: with the code that Spark generates of it."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _as_shipped(as_shipped: None) -> None:
    """Every module of this ring."""
