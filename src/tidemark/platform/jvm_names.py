"""Names of the JVM's classes and methods, asked for once.

Py4J asks the JVM what `functions` is, and what `functions.when` is, each time a Column is made, and a
stream's plan is some hundred Columns: a third of all calls were that.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember
from pyspark.sql import SparkSession

_CLASSES = ("PythonSQLUtils", "PythonUtils", "functions", "org.apache.spark.sql.functions")
"""What `pyspark.sql.functions` and `Column` call."""


class _Known(JavaClass):  # type: ignore[misc]  # Py4J has no types
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            setattr(self, name, found)
        return found


def remember_names(spark: SparkSession) -> None:
    """Later Columns of this process, in any thread, are made without these questions. A classic session's."""
    jvm = spark._jvm
    for name in _CLASSES:
        if name not in vars(jvm):
            asked = getattr(jvm, name)
            setattr(jvm, name, _Known(asked._fqn, asked._gateway_client))
