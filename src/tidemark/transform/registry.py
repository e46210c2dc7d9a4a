"""Schema ids that a batch brings and the plan does not know yet: asked for on the driver, then kept."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import httpx
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.config.decoding import AvroOptions, Format
from tidemark.contract import records
from tidemark.contract.errors import NonRetriableError, RetriableError
from tidemark.transform.decode.installed_decoders import decoder_named
from tidemark.transform.plan import DecodePlan
from tidemark.transform.schema_avsc import AvroSchemaError, UnusableSchema, fields_from_avro, load

MOST_IDS = 1000
"""Ids looked for in one batch; random bytes on a framed topic are not to fill the driver."""
MOST_REFERENCES = 100
MOST_DEPTH = 10
"""Schemas that one schema may refer to, and over how many others."""


class SchemaRegistry:
    """Schemas by id over Confluent's HTTP API. A schema never changes under its id, so it is kept.

    An id that the registry does not know is asked for again in a later batch: it may be registered meanwhile.
    A schema of another kind, and one that cannot be a row, is an `UnusableSchema`: it costs its records, not
    the stream. An outage, a time-out, 429 and 5xx are `RetriableError`, any other refusal stops the stream.
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

    def schema(self, schema_id: int) -> Any | UnusableSchema | None:
        """The Avro schema of an id with all that it refers to; None where the registry does not know it."""
        with self._lock:
            if schema_id not in self._known:
                found = self._ask(schema_id)
                if found is None:
                    return None
                self._known[schema_id] = found
            return self._known[schema_id]

    def _ask(self, schema_id: int) -> Any | UnusableSchema | None:
        body = self._get(f"schemas/ids/{schema_id}")
        if body is None:
            return None
        kind = body.get("schemaType", "AVRO")
        if kind != "AVRO":
            return UnusableSchema(f"id {schema_id}: a schema of type {kind}")
        try:
            referenced: dict[tuple[str, int], str] = {}
            self._follow(body, referenced, depth=0)
            schema = load(body["schema"], referenced.values())
            fields_from_avro(schema)
        except AvroSchemaError as error:
            return UnusableSchema(f"id {schema_id}: {error}")
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            return UnusableSchema(f"id {schema_id}: not an Avro schema ({type(error).__name__}: {error})")
        return schema

    def _follow(self, body: Mapping[str, Any], found: dict[tuple[str, int], str], *, depth: int) -> None:
        """Adds the schemas that `body` refers to, each after those that it refers to itself."""
        for each in body.get("references") or ():
            subject, version = str(each["subject"]), int(each["version"])
            if (subject, version) in found:
                continue
            if depth == MOST_DEPTH or len(found) == MOST_REFERENCES:
                raise AvroSchemaError(
                    f"refers to more than {MOST_REFERENCES} schemas, or over more than {MOST_DEPTH} others"
                )
            answer = self._get(f"subjects/{quote(subject, safe='')}/versions/{version}")
            if answer is None:
                raise AvroSchemaError(f"refers to version {version} of {subject}, which is not registered")
            self._follow(answer, found, depth=depth + 1)
            found[subject, version] = answer["schema"]

    def _get(self, path: str) -> dict[str, Any] | None:
        """The registry's answer, which has a `schema`; None where it does not know what is asked for."""
        try:
            answer = self._client.get(f"{self._url}/{path}")
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
                f"the schema registry answered {answer.status_code} for {path}",
                hint="check avro.registry and its credentials",
            )
        try:
            body = answer.json()
            if isinstance(body["schema"], str):
                return dict(body)
        except (ValueError, LookupError, TypeError):
            pass
        raise RetriableError(f"the schema registry's answer for {path} is no schema")


def _names_ids(plan: DecodePlan) -> bool:
    """Whether records name the schemas that they were written with."""
    return plan.framed and Format.AVRO in plan.formats


def unknown_ids(envelopes: DataFrame, plan: DecodePlan) -> frozenset[int]:
    """Schema ids in these records that the plan has no schema of, at most `MOST_IDS`, the most frequent ones. Reads
    the records where they name such ids.
    """
    if not _names_ids(plan):
        return frozenset()
    settled = sorted(plan.writers)
    payload = F.col(records.PAYLOAD)
    if plan.decoder:
        payload = decoder_named(plan.decoder)(payload).cast("binary")
    identity = _schema_id(payload).alias("id")
    found = envelopes.select(identity).where(F.col("id").isNotNull())
    if settled:
        found = found.where(~F.col("id").isin(settled))
    frequent = found.groupBy("id").count().orderBy(F.desc("count"), "id").limit(MOST_IDS)
    return frozenset(row["id"] for row in frequent.collect())


def _schema_id(payload: Column) -> Column:
    """The id of a framed payload, or NULL where the frame is broken."""
    framed = (F.octet_length(payload) >= 5) & (F.hex(F.substring(payload, 1, 1)) == "00")
    number = F.conv(F.hex(F.substring(payload, 2, 4)), 16, 10).try_cast("bigint")
    return F.when(framed, number)


def ids_in(payloads: Iterable[bytes | None], plan: DecodePlan) -> frozenset[int]:
    """As `unknown_ids`, of payloads in this process."""
    if not _names_ids(plan):
        return frozenset()
    framed = (p for p in payloads if p is not None and len(p) >= 5 and p[0] == 0)
    return frozenset(int.from_bytes(p[1:5], "big") for p in framed) - plan.writers.keys()


def with_registered(envelopes: DataFrame, plan: DecodePlan, registry: SchemaRegistry | None) -> DecodePlan:
    """The plan with every schema that the registry has for these records. Raises as `widen`."""
    ids = unknown_ids(envelopes, plan) if registry is not None else frozenset()
    return widen(plan, ids, registry) if ids else plan


def widen(plan: DecodePlan, ids: frozenset[int], registry: SchemaRegistry | None) -> DecodePlan:
    """The plan with the schemas of these ids. One that nobody knows rejects its records, and is asked for
    again with the next batch that brings it.

    Without a registry the ids stay unknown. Raises `RetriableError` while the registry is unavailable.
    """
    found = {i: registry.schema(i) for i in sorted(ids)} if registry is not None else {}
    known = {i: schema for i, schema in found.items() if schema is not None}
    return plan.with_writers(known)
