"""Schema ids of framed Avro: those that the decoding plan lacks are asked for before the batch runs."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.contract.errors import RestartStream
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.batch.refusals import check_readable
from tidemark.transform import DecodePlan, unknown_ids, widen


class WiderPlan(RestartStream):
    """The registry has a schema that the running query does not know: it starts again with `decode`."""

    def __init__(self, message: str, decode: DecodePlan) -> None:
        super().__init__(message)
        self.decode = decode


def check_schema_ids(batch: DataFrame, plan: BatchPlan, bounds: Bounds) -> None:
    """Raises WiderPlan, before anything is written, where the registry has a schema for an unknown id of the
    batch; RetriesExhausted while the registry is unavailable.

    Ids that the registry does not have reject their records. Only framed Avro with a registry costs a look at
    the batch.
    """
    decode = plan.decode
    if decode is None or plan.registry is None:
        return
    try:
        ids = unknown_ids(batch, decode)
    except Exception as error:
        check_readable(error, plan, bounds)
        raise
    if not ids:
        return
    wider = plan.retry.call(lambda: widen(decode, ids, plan.registry), step="ask the schema registry")
    if wider.writers.keys() != decode.writers.keys():
        raise WiderPlan(f"schema ids {sorted(ids)} are new", wider)
