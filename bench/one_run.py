"""One run of the whole job over what a topic has, in a process of its own: its costs as JSON, last line.

python bench/one_run.py MASTER BOOTSTRAP NAME BATCH FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from landing import Costs
from load import Load
from rivals import settings_of

from tidemark.ingest.application import Ingest
from tidemark.platform.session import local_session


def main(master: str, bootstrap: str, name: str, batch: str, folder: str) -> None:
    place = Path(folder)
    spark = local_session(
        "tidemark-bench-one",
        master=master,
        extra_conf={"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(place / "spark")},
    )
    costs = Costs(frozenset())
    settings = settings_of(Load(bootstrap, name, 0, int(batch)), place)
    (outcome,) = Ingest(spark, settings, available_now=True, observers=[costs]).run()
    spark.stop()
    if outcome.error is not None:
        raise outcome.error
    sys.stdout.write(json.dumps({"cpu": costs.cpu, "wall": costs.wall}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
