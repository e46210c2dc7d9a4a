"""When the count that came with a write is trusted, and when the batch is counted again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.config.stream import Idempotency, Processing
from tidemark.contract.marks import Marks
from tidemark.ingest.batch import append as accepted_module
from tidemark.ingest.batch.append import AcceptedRows
from tidemark.ingest.batch.counts import BatchCounts
from tidemark.ingest.batch.new_offsets import Bounds, NewOffsets
from tidemark.resilience.retry import Retrier
from tidemark.sink.append import Committed

AGAIN = BatchCounts(5, 4, 1, 0, 0, 0, None)


def landed(monkeypatch: pytest.MonkeyPatch, observed: BatchCounts | None, *, rows: int) -> BatchCounts:
    """The batch counts of a batch of five offsets whose write added `rows` and observed `observed`."""
    plan: Any = SimpleNamespace(
        retry=Retrier(), processing=Processing(), idempotency=Idempotency(), table="orders"
    )
    ledger: Any = SimpleNamespace(committed=lambda commit: None)
    routed: Any = None
    batch = AcceptedRows(plan, ledger, routed, 7, Bounds(Marks({0: 0}), Marks({0: 5})), NewOffsets({}, {}))
    own: Any = None
    monkeypatch.setattr(AcceptedRows, "_attempt", lambda self, number: (Committed(3, rows, own), observed))
    monkeypatch.setattr(accepted_module, "recount", lambda routed: AGAIN)
    return batch.land().batch_counts


def test_the_count_is_trusted_when_the_commit_added_as_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = BatchCounts(5, 4, 1, 0, 0, 0, [])
    assert landed(monkeypatch, observed, rows=4) is observed


@pytest.mark.parametrize(
    ("observed", "rows"),
    [
        pytest.param(None, 4, id="the observation did not come"),
        pytest.param(BatchCounts(4, 3, 1, 0, 0, 0, []), 4, id="a part of a failed attempt was reported"),
        pytest.param(BatchCounts(10, 4, 6, 0, 0, 0, []), 4, id="a stage that ran again was reported twice"),
    ],
)
def test_the_batch_is_counted_again_when_the_count_cannot_be_right(
    monkeypatch: pytest.MonkeyPatch, observed: BatchCounts | None, rows: int
) -> None:
    assert landed(monkeypatch, observed, rows=rows) is AGAIN
