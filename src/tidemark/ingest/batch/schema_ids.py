"""Schema ids of framed Avro: what a plan lacks is asked for before the batch runs."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.contract.errors import RestartStream
from tidemark.resilience.retry import Retrier
from tidemark.transform import DecodePlan, SchemaRegistry, unknown_ids, widen


class WiderPlan(RestartStream):
    """The registry knows a schema that the running query does not: it runs again with `decode`."""

    def __init__(self, message: str, decode: DecodePlan) -> None:
        super().__init__(message)
        self.decode = decode


def with_schema_ids(
    batch: DataFrame, plan: DecodePlan, registry: SchemaRegistry | None, retry: Retrier
) -> DecodePlan:
    """The plan, knowing about every schema id in the batch. Only framed Avro costs a look at the batch.

    Ids that nobody knows reject their records. Raises WiderPlan before anything is written where the
    registry has a schema for one; RetriesExhausted while the registry is unavailable.
    """
    ids = unknown_ids(batch, plan)
    if not ids:
        return plan
    wider = retry.call(lambda: widen(plan, ids, registry), step="ask the schema registry")
    if wider.writers.keys() != plan.writers.keys():
        raise WiderPlan(f"schema ids {sorted(ids)} are new", wider)
    return wider
