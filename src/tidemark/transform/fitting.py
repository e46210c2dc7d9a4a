"""Rejects, each by itself, the rows that the table would refuse, and a whole batch with them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.contract.routes import Route
from tidemark.transform.limits import ESCAPED, LONGEST_NAME, Constraint, TableLimits, escaped_length
from tidemark.transform.validate import FAULTS, failure_of_faults, fault, outcome_of

FORMAT = "_format"
_WHOLE = "_classified"
_UNFIT = "_unfit"
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_EXPECTED = "a value that can name a partition's folder, and comes back from it"
_JAVA_CLASS = "[" + "".join(f"\\x{ord(c):02x}" for c in ESCAPED) + "]"


def fitted(classified: DataFrame, limits: TableLimits) -> DataFrame:
    """In: what `transform` makes, with the column `_format`. Out: the same without it; accepted records that
    the table would refuse are rejected.
    """
    row = records.ROW
    checks = [_unfit_partition(column, row, limits) for column in limits.partitions]
    if limits.partitions and limits.folders and _may_be_too_long(limits):
        checks.append(_too_long_together(row, limits))
    checked = classified.withColumn(_UNFIT, _of_accepted(checks))
    if limits.constraints:
        # Their expressions name the table's columns, some of which the record has too.
        whole = F.struct(*[F.col(c) for c in checked.columns]).alias(_WHOLE)
        violated = [_violated(constraint) for constraint in limits.constraints]
        both = F.concat(F.col(f"{_WHOLE}.{_UNFIT}"), _of_accepted(violated, f"{_WHOLE}.{records.ROUTE}"))
        kept_whole = [F.col(f"{_WHOLE}.{c}") for c in classified.columns]
        checked = checked.select(whole, f"{row}.*").select(*kept_whole, both.alias(_UNFIT))
    unfit = F.coalesce(F.size(F.col(_UNFIT)) > 0, F.lit(False))
    failure = failure_of_faults(F.col(_UNFIT), F.col(FORMAT))
    changed = {
        records.ROUTE: F.when(unfit, F.lit(Route.REJECTED.value)).otherwise(F.col(records.ROUTE)),
        records.FAILURE: F.when(unfit, failure).otherwise(F.col(records.FAILURE)),
        records.ROW: F.when(~unfit, F.col(records.ROW)),
    }
    kept = [c for c in classified.columns if c != FORMAT]
    return checked.select(*[changed.get(c, F.col(c)).alias(c) for c in kept])


def _of_accepted(checks: list[Column], route: str = records.ROUTE) -> Column:
    """The faults of an accepted record; NULL of another."""
    accepted = F.col(route) == Route.ACCEPTED.value
    found = F.array_compact(F.array(*checks)) if checks else F.array()
    return F.when(accepted, found.cast(FAULTS))


def _unfit_partition(column: str, row: str, limits: TableLimits) -> Column:
    """NULL, or the fault of a value that Delta could not put into a folder's name and read back."""
    value = F.col(f"{row}.`{column}`")
    text = value.cast("string")
    found = (
        F.when(F.octet_length(value) == 0, "the empty text, which comes back as NULL")
        .when(text == _NULL_FOLDER, f"{_NULL_FOLDER}, which comes back as NULL")
        .when(~F.is_valid_utf8(text), "bytes that are no text in UTF-8")
    )
    if limits.folders:
        found = found.when(F.contains(text, F.lit("\x00")), "a NUL character")
        if limits.dotless:
            found = found.when(F.endswith(text, F.lit(".")), "a dot at its end, which this store refuses")
        # A third of the limit cannot be passed, whatever of it is escaped.
        safe = (LONGEST_NAME - _before(column)) // 3
        long = (F.octet_length(value) > safe) & (_length(column, row) > LONGEST_NAME)
        length = F.concat(
            F.lit("a folder's name of "),
            _length(column, row).cast("string"),
            F.lit(f" bytes, and {LONGEST_NAME} is the most"),
        )
        found = found.when(long, length)
    return F.when(found.isNotNull(), _partition_fault(column, found))


def _too_long_together(row: str, limits: TableLimits) -> Column:
    total = sum((_length(c, row) + 1 for c in limits.partitions), F.lit(0))
    found = F.concat(
        F.lit("folders' names of "),
        total.cast("string"),
        F.lit(f" bytes, and {limits.room} are left for them at the table's place"),
    )
    return F.when(total > limits.room, _partition_fault(", ".join(limits.partitions), found))


def _may_be_too_long(limits: TableLimits) -> bool:
    return len(limits.partitions) * (LONGEST_NAME + 1) > limits.room


def _before(column: str) -> int:
    return escaped_length(column) + 1


def _length(column: str, row: str) -> Column:
    """Bytes of the folder's name, `column=value` with what is escaped."""
    text = F.col(f"{row}.`{column}`").cast("string")
    value = F.octet_length(text) + F.lit(2) * F.regexp_count(text, F.lit(_JAVA_CLASS))
    return F.lit(_before(column)) + F.coalesce(value, F.lit(len(_NULL_FOLDER)))


def _partition_fault(field: str, found: Column) -> Column:
    start = f"{Code.PARTITION_VALUE}: field {field}: expected {_EXPECTED}, found "
    message = F.concat(F.lit(start), found)
    return fault(Code.PARTITION_VALUE, message, field=field, expected=_EXPECTED, found=found)


def _violated(constraint: Constraint) -> Column:
    """NULL, or the fault of a row for which the table's constraint is not true; NULL is not true to Delta."""
    outcome = outcome_of(constraint.expression, null_is=False)
    raised = f"{constraint.name} of the table raised on this record: {constraint.expression}"
    broken = f"{constraint.name} of the table is not true: {constraint.expression}"
    return F.when(outcome.isNull(), fault(Code.TRANSFORM_FAILED, raised, rule=constraint.name)).when(
        outcome == F.lit(b"false"), fault(Code.RULE_VIOLATED, broken, rule=constraint.name)
    )
