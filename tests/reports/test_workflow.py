"""From submission to COMPLETED, through a real broker and both kinds of database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemark.reports.request import Status

if TYPE_CHECKING:
    from tests.reports.conftest import Workflow


def test_a_request_is_completed_with_an_archive_ref_when_it_was_submitted(
    workflow: Callable[..., Workflow],
) -> None:
    flow = workflow()
    flow.worker()
    request_id = flow.submit(accountIds=["A1"])
    row = flow.wait_for(request_id, Status.COMPLETED)
    archived = flow.archive.read(row.archive_ref)
    assert archived is not None
    assert archived.summary["summary"] == {"parameters": {"accountIds": ["A1"]}}
    assert archived.rows() == [{"name": "accountIds", "request": request_id}]
