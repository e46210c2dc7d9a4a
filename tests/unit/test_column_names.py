"""Names of fields that Parquet or SQL trip over: the column each becomes, and where two would be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.config.stream import Stream
from tidemark.contract.errors import ConfigError
from tidemark.transform import DecodePlan, decode_plan


def plan_of(folder: Path, ddl: str, fields: dict[str, dict[str, str]] | None = None) -> DecodePlan:
    body = {"kafka-topic": "orders", "schema": {"ddl": ddl}, "fields": fields or {}}
    return decode_plan(Stream.model_validate(body), base_dir=folder, spark=None)


@pytest.mark.guarantee("case: schema-01")
def test_a_name_becomes_a_column_that_needs_no_quoting_at_any_depth(tmp_path: Path) -> None:
    ddl = "`order.id` INT, `unit price` DOUBLE, `a,b;c{d}e(f)g=h` STRING, s STRUCT<`x.y`: INT>"
    for _ in range(2):
        schema = plan_of(tmp_path, ddl).table_schema
        assert schema.names[:4] == ["order_id", "unit_price", "a_b_c_d_e_f_g_h", "s"]
        assert schema["s"].dataType.simpleString() == "struct<x_y:int>"
    assert [f.name for f in plan_of(tmp_path, ddl).fields][:2] == ["order.id", "unit price"]


@pytest.mark.guarantee("case: schema-01")
@pytest.mark.parametrize("other", ["order id", "order_id", "ORDER.ID"])
def test_two_names_that_end_as_one_column_are_refused(tmp_path: Path, other: str) -> None:
    ddl = f"`order.id` INT, `{other}` INT"
    with pytest.raises(ConfigError, match=r"are one column, \w+; set fields\."):
        plan_of(tmp_path, ddl)
    assert plan_of(tmp_path, ddl, {other: {"column": "second"}}).table_schema.names[:2] == [
        "order_id",
        "second",
    ]
