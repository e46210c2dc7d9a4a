"""The at-least-once listener: commits an offset only after the executor has reported its record done.

Needs no Spark. Source document: `adr-listen-at-least-once.md`.
"""

from __future__ import annotations

from tidemark.contract.failures import Scope
from tidemark.listener.delivery.batch import Batch, BatchFailure, BatchResult, PartialSuccess, Record
from tidemark.listener.delivery.failure import Failure
from tidemark.listener.delivery.giving_up import ListenerStopped
from tidemark.listener.executor import Execution, Executor, InProcessExecutor
from tidemark.listener.listener import AtLeastOnceListener
from tidemark.listener.starting import from_marks

__all__ = [
    "AtLeastOnceListener",
    "Batch",
    "BatchFailure",
    "BatchResult",
    "Execution",
    "Executor",
    "Failure",
    "InProcessExecutor",
    "ListenerStopped",
    "PartialSuccess",
    "Record",
    "Scope",
    "from_marks",
]
