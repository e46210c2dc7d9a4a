"""What a job leaves for the console, in one process of any client: `land.py CONFIG CHECKPOINTS`.

The records of the topic land in the tables of target prod, and a breaker has opened and closed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidemark.config.reading.load import load_settings
from tidemark.contract.events import BreakerChanged
from tidemark.ingest.monitoring.breaker_table import BreakerTable, breaker_table_of
from tidemark.monitoring.metrics import Metrics
from tidemark.operations.jobs import create_tables_job, ingest_job
from tidemark.platform.open_session import session_for
from tidemark.resilience.breakers import Breakers


def main(config: str, checkpoints: str) -> None:
    settings = load_settings(Path(config), target="prod", overrides={"checkpoint-root": checkpoints})
    spark = session_for(settings)
    spark.sql("CREATE SCHEMA IF NOT EXISTS streaming")
    create_tables_job(spark, settings)
    ingest_job(spark, settings)
    table = breaker_table_of(settings)
    assert table is not None
    name = settings.application_name
    changes = BreakerTable(spark, table, Metrics(name), application=name, breakers=Breakers.of(settings))
    for old, new in (("CLOSED", "OPEN"), ("OPEN", "HALF_OPEN"), ("HALF_OPEN", "CLOSED")):
        changes.emit(BreakerChanged("user-events/table", old, new, "for this test"))
    assert changes.flush() == 3


if __name__ == "__main__":
    main(*sys.argv[1:])
