"""The loop that one writes first: a Kafka client and delta-rs, without Spark and without guarantees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from load import Batches, Load


def delta_rs_loop(load: Load, folder: Path) -> Batches:
    """One process without Spark: a Kafka client, orjson, pyarrow and delta-rs. Not idempotent.

    Raises ImportError where delta-rs or orjson is not installed.
    """
    import orjson
    import pyarrow as pa
    from confluent_kafka import Consumer
    from deltalake import write_deltalake

    consumer = Consumer(
        {
            "bootstrap.servers": load.bootstrap,
            "group.id": folder.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "queued.min.messages": 500_000,
            "log_level": 0,
        }
    )
    consumer.subscribe([load.topic])
    text = pa.string()
    schema = pa.schema(
        [
            *(("user_id", text), ("event_type", text), ("amount", pa.float64()), ("quantity", pa.int32())),
            *(("occurred_at", text), ("cob", text), ("price", pa.float64()), ("active", pa.bool_())),
            *(("note", text), ("session", pa.int64())),
        ]
    )
    left = load.records
    rows: list[Any] = []
    batches = Batches()
    while left:
        for message in consumer.consume(10_000, 10):
            left -= 1
            try:
                rows.append(orjson.loads(message.value()))
            except orjson.JSONDecodeError:
                continue
        if rows and (len(rows) >= load.batch or not left):
            kept = [row for row in rows if isinstance(row.get("quantity"), int | None)]
            write_deltalake(str(folder / "table"), pa.Table.from_pylist(kept, schema), mode="append")
            rows = []
            batches.batch_ended()
    consumer.close()
    return batches
