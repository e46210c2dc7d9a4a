"""`python -m tidemark.platform.class_training ARCHIVE`: one small stream into Delta, whose classes Java writes down."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemark.platform.session import local_session

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_EXIT_S = 200.0


@dataclass(frozen=True)
class Append:
    """The `foreachBatch` handler of the stream."""

    path: str

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        writer = batch.write.format("delta").mode("append")
        writer.option("txnAppId", "training").option("txnVersion", str(batch_id + 1)).save(self.path)


def unchanged(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    yield from batches


def main(archive: str) -> None:
    """Returns once Java has ended: it writes the archive then."""
    from pyspark import SparkContext

    option = shlex.quote(f"-XX:ArchiveClassesAtExit={archive}")
    spark = local_session("tidemark-classes", extra_conf={"spark.driver.extraJavaOptions": option})
    gateway: Any = SparkContext._gateway
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/source", f"{folder}/target"
        columns = "id LONG, text STRING"
        spark.range(8).selectExpr("id", "CAST(id AS STRING) AS text").write.format("delta").save(source)
        spark.sql(f"CREATE TABLE delta.`{target}` ({columns}) USING delta")
        spark.sql(f"DESCRIBE DETAIL delta.`{target}`").collect()
        rows = spark.readStream.format("delta").load(source).mapInArrow(unchanged, columns)
        stream = rows.writeStream.foreachBatch(Append(target)).trigger(availableNow=True)
        stream.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_EXIT_S)


if __name__ == "__main__":
    main(sys.argv[1])
