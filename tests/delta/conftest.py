"""Writes and merges are tested the way they run: with generated code and adaptive plans."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _as_shipped(as_shipped: None) -> None:
    """Every module of this ring."""
