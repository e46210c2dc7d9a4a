"""Brings the stream under test to this ring."""

from __future__ import annotations

from tests.stream_under_test import stream

__all__ = ["stream"]
