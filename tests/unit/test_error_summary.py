"""The summary of an error: all lines of its message, and none of its trace."""

from __future__ import annotations

import pytest

from tidemark.contract.errors import LedgerError, summary_of_error
from tidemark.resilience.error_info import error_info_of

MANUAL = """An error occurred while calling o93.sql.
: org.apache.spark.sql.delta.DeltaTableFeatureException: [DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT] Your \
table schema requires manually enablement of the following table feature(s): timestampNtz.

To do this, run the following command for each of features listed above:
  ALTER TABLE table_name SET TBLPROPERTIES ('delta.feature.feature_name' = 'supported')
\tat org.apache.spark.sql.delta.DeltaErrorsBase.x(DeltaErrors.scala:2)
"""
CHECK = """An error occurred while calling o93.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(QueryExecutionErrors.scala:843)
Caused by: org.apache.spark.sql.delta.schema.DeltaInvariantViolationException: \
[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint pos (a > 0) violated by row with values:
 - a : -5
\tat org.apache.spark.sql.delta.schema.DeltaInvariantViolationException$.apply(X.scala:1)
\t... 20 more
"""
PLAN = """[UNRESOLVED_COLUMN] A column `x` cannot be resolved. SQLSTATE: 42703;
'Project ['x]
+- Relation [id#1]
"""
PYTHON = (
    '[STREAM_FAILED] Query failed: Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x'
)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        (MANUAL, "org.apache.spark.sql.delta.DeltaTableFeatureException: [DELTA_FEATURES", "= 'supported')"),
        (
            CHECK,
            "org.apache.spark.SparkException: [TASK_WRITE_FAILED]",
            "violated by row with values: - a : -5",
        ),
        (PLAN, "[UNRESOLVED_COLUMN] A column", "SQLSTATE: 42703;"),
        (PYTHON, "[STREAM_FAILED] Query failed:", "Query failed:"),
        ("", "RuntimeError", "RuntimeError"),
        ("x" * 5000, "xxx", "x…"),
    ],
)
def test_a_summary_has_every_line_of_a_message_and_none_of_a_trace(text: str, first: str, last: str) -> None:
    line = summary_of_error(RuntimeError(text))
    assert line.startswith(first)
    assert line.endswith(last)
    assert "\n" not in line
    assert "\tat " not in line
    assert len(line) <= 1001


def test_an_own_error_says_its_message_without_its_hint() -> None:
    assert summary_of_error(LedgerError("a\nb", "hint")) == "a\nb"


def test_the_summary_of_facts_has_the_second_line_too() -> None:
    assert error_info_of(CHECK).summary.endswith("writing rows. SQLSTATE: 58030")
    inner = CHECK[CHECK.index("org.apache.spark.sql.delta.schema") :]
    assert error_info_of(inner).summary.endswith(
        "CHECK constraint pos (a > 0) violated by row with values: - a : -5"
    )


def test_every_line_of_a_message_is_read_from_a_python_traceback() -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x()\n'
        "tidemark.contract.errors.SchemaConflict: [TIDEMARK_SCHEMA] differ:\n- a: INT\n- b: INT\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 1, in g\n    y()\nValueError: outer\n'
    )
    outer, inner = error_info_of(text).links
    assert outer.message == "outer"
    assert inner.message == "[TIDEMARK_SCHEMA] differ:\n- a: INT\n- b: INT"
