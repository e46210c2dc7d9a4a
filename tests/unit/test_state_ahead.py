"""The states of many tables that land at the same time."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from tidemark.config.destination import TableRef
from tidemark.contract.events import StreamStarted
from tidemark.contract.marks import Marks
from tidemark.ingest.state_ahead import StateAhead


def test_a_hundred_streams_that_start_at_once_do_not_wait_for_tables_states() -> None:
    asked, go_on, begun = [], threading.Event(), threading.Event()

    def sql(statement: str) -> Any:
        asked.append(statement)
        begun.set()
        go_on.wait(10)
        return SimpleNamespace(collect=list)

    targets: Any = [SimpleNamespace(name=f"s{n}", table=TableRef(path=f"/t{n}")) for n in range(100)]
    spark: Any = SimpleNamespace(sql=sql)
    with StateAhead(spark, targets) as ahead:
        for number in range(100):
            ahead.emit(StreamStarted(f"s{number}", "t", "id", "t", Marks({}), fresh=True))
            begun.wait(10)
        threading.Timer(0.2, go_on.set).start()
    assert 1 <= len(asked) <= 3
