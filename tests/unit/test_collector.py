"""Which garbage collector the driver's Java has."""

from __future__ import annotations

import pytest

from tidemark.platform.spark_conf import collector_option

OPTIONS = "-Duser.timezone=UTC -Djava.io.tmpdir=/tmp/@home"
SERIAL = "-XX:+UseSerialGC -Xmn256m"


@pytest.mark.parametrize(("cores", "option"), [(1, SERIAL), (2, SERIAL), (3, "")])
def test_a_small_machine_has_the_serial_collector(cores: int, option: str) -> None:
    assert collector_option(OPTIONS, cores=cores, environ={"JAVA_TOOL_OPTIONS": "-Xlog:gc"}) == option


@pytest.mark.parametrize(
    "named", ["-XX:+UseG1GC", "-Dx=y -XX:+UseZGC", "@java.options", "-XX:VMOptionsFile=a"]
)
def test_java_is_never_given_two_collectors(named: str) -> None:
    assert collector_option(f"{OPTIONS} {named}", cores=2, environ={}) == ""
    for variable in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        assert collector_option(OPTIONS, cores=2, environ={variable: named}) == ""
