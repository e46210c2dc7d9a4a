"""Decoding needs no Spark: a session starts where a test does something with it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import SparkSession


class _Session:
    """The run's session, which starts at its first use."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request.getfixturevalue("running_spark"), name)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    return cast(SparkSession, _Session(request))
