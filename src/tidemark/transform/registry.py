"""Schema ids that a batch brings and the plan does not know yet: asked for on the driver, then kept."""

from __future__ import annotations

import threading
from typing import Any

import httpx
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.config.decoding import AvroOptions, Format
from tidemark.contract import records
from tidemark.contract.errors import NonRetriableError, RetriableError
from tidemark.transform.decode.decoders import decoder_named
from tidemark.transform.plan import DecodePlan
from tidemark.transform.schema_avsc import AvroSchemaError, fields_from_avro, load

MOST_IDS = 1000
"""Ids looked for in one batch; random bytes on a framed topic are not to fill the driver."""


class SchemaRegistry:
    """Schemas by id over Confluent's HTTP API. A schema never changes under its id, so it is kept.

    An id that the registry does not know is asked for again in a later batch: it may be registered
    meanwhile. An outage, a time-out, 429 and 5xx are `RetriableError`, anything else that is not a
    schema stops the stream.
    """

    def __init__(self, url: str, *, timeout: float = 10.0, client: httpx.Client | None = None) -> None:
        self._url, self._timeout = url.rstrip("/"), timeout
        self._client = client or httpx.Client(timeout=timeout)
        self._known: dict[int, Any] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        # A batch that runs in another process (Spark Connect) connects from there.
        return {"url": self._url, "timeout": self._timeout, "known": dict(self._known)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._url, self._timeout, self._known = state["url"], state["timeout"], state["known"]
        self._client, self._lock = httpx.Client(timeout=self._timeout), threading.Lock()

    @classmethod
    def of(cls, options: AvroOptions) -> SchemaRegistry | None:
        return cls(options.registry, timeout=options.registry_timeout) if options.registry else None

    def schema(self, schema_id: int) -> Any | None:
        """The Avro schema of an id, or None where the registry does not know the id."""
        with self._lock:
            if schema_id not in self._known:
                found = self._ask(schema_id)
                if found is None:
                    return None
                self._known[schema_id] = found
            return self._known[schema_id]

    def _ask(self, schema_id: int) -> Any | None:
        try:
            answer = self._client.get(f"{self._url}/schemas/ids/{schema_id}")
        except httpx.HTTPError as error:
            raise RetriableError(f"the schema registry did not answer: {type(error).__name__}") from error
        if answer.status_code == 404:
            return None
        if answer.status_code == 429 or answer.status_code >= 500:
            wait = answer.headers.get("Retry-After", "")
            raise RetriableError(
                f"the schema registry answered {answer.status_code}",
                retry_after=float(wait) if wait.isdigit() else None,
            )
        if answer.status_code != 200:
            raise NonRetriableError(
                f"the schema registry answered {answer.status_code} for schema id {schema_id}",
                hint="check avro.registry and its credentials",
            )
        return self._parsed(answer, schema_id)

    @staticmethod
    def _parsed(answer: httpx.Response, schema_id: int) -> Any | None:
        try:
            body = answer.json()
            text, kind, references = body["schema"], body.get("schemaType", "AVRO"), body.get("references")
        except (ValueError, KeyError, TypeError) as error:
            raise RetriableError(f"the schema registry's answer for id {schema_id} is no schema") from error
        if kind != "AVRO":
            return None
        if references:
            raise NonRetriableError(
                f"schema id {schema_id} refers to other schemas, which is not supported",
                hint="put the whole schema into a file and name it under avro.schema-files",
            )
        try:
            schema = load(text)
            fields_from_avro(schema)
        except AvroSchemaError as error:
            raise NonRetriableError(
                f"schema id {schema_id} cannot be a table's row: {error}",
                hint="put a schema that Spark reads under avro.schema-files",
            ) from error
        return schema


def unknown_ids(envelopes: DataFrame, plan: DecodePlan) -> frozenset[int]:
    """Schema ids in these records that the plan has no schema of. Reads the batch where Avro is framed."""
    if not plan.framed or Format.AVRO not in plan.formats:
        return frozenset()
    settled = sorted(plan.writers)
    payload = F.col(records.PAYLOAD)
    if plan.decoder:
        payload = decoder_named(plan.decoder)(payload).cast("binary")
    identity = _schema_id(payload).alias("id")
    found = envelopes.select(identity).where(F.col("id").isNotNull()).distinct()
    if settled:
        found = found.where(~F.col("id").isin(settled))
    return frozenset(row["id"] for row in found.limit(MOST_IDS).collect())


def _schema_id(payload: Column) -> Column:
    """The id of a framed payload, or NULL where the frame is broken."""
    framed = (F.octet_length(payload) >= 5) & (F.hex(F.substring(payload, 1, 1)) == "00")
    number = F.conv(F.hex(F.substring(payload, 2, 4)), 16, 10).try_cast("bigint")
    return F.when(framed, number)


def widen(plan: DecodePlan, ids: frozenset[int], registry: SchemaRegistry | None) -> DecodePlan:
    """The plan with the schemas of these ids. One that nobody knows rejects its records, and is asked for
    again with the next batch that brings it.

    Without a registry the ids stay unknown. Raises `RetriableError` while the registry is away.
    """
    found = {i: registry.schema(i) for i in sorted(ids)} if registry is not None else {}
    known = {i: schema for i, schema in found.items() if schema is not None}
    return plan.with_writers(known)
