"""Brings the stream under test to this ring."""

from tests.stream_under_test import stream

__all__ = ["stream"]
