"""Which garbage collector the driver's Java has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.platform.jvm.collector import collector_option

OPTIONS = "-Duser.timezone=UTC -Djava.io.tmpdir=/tmp/@home"
SERIAL = "-XX:+UseSerialGC -Xmn256m"


@pytest.mark.parametrize(("cores", "option"), [(1, SERIAL), (2, SERIAL), (3, "")])
def test_a_small_machine_has_the_serial_collector(cores: int, option: str) -> None:
    assert collector_option(OPTIONS, cores=cores, environ={"JAVA_TOOL_OPTIONS": "-Xlog:gc"}) == option


@pytest.mark.parametrize(
    "named", ["-XX:+UseG1GC", "-Dx=y -XX:+UseZGC", "@java.options", "'@java.options'", "-XX:VMOptionsFile=a"]
)
def test_java_is_never_given_two_collectors(named: str) -> None:
    assert collector_option(f"{OPTIONS} {named}", cores=2, environ={}) == ""
    for variable in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        assert collector_option(OPTIONS, cores=2, environ={variable: named}) == ""


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("spark-defaults.conf", "spark.driver.defaultJavaOptions -XX:+UseG1GC"),
        ("spark-env.sh", "export SPARK_SUBMIT_OPTS=-XX:+UseParallelGC"),
        ("java-opts", "-XX:+UseG1GC"),
    ],
)
def test_a_collector_in_a_file_of_spark_is_the_only_one(tmp_path: Path, file: str, line: str) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    for environ in ({"SPARK_CONF_DIR": str(conf)}, {"SPARK_HOME": str(tmp_path)}):
        (conf / file).write_text(f"# {line}\n", encoding="utf-8")
        assert collector_option(OPTIONS, cores=2, environ=environ) == SERIAL
        (conf / file).write_text(f"{line}\n", encoding="utf-8")
        assert collector_option(OPTIONS, cores=2, environ=environ) == ""


@pytest.mark.parametrize(
    "arguments", ["--conf spark.driver.defaultJavaOptions=-XX:+UseG1GC", "--properties-file own.conf"]
)
def test_a_collector_in_the_arguments_of_spark_submit_is_the_only_one(arguments: str) -> None:
    environ = {"PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell"}
    assert collector_option(OPTIONS, cores=2, environ=environ) == ""


@pytest.mark.parametrize("named", ["-Xmn600m", "-XX:NewSize=600m", "-XX:MaxNewSize=1g", "-XX:NewRatio=1"])
def test_the_room_for_new_objects_that_an_operator_names_stays(named: str) -> None:
    assert collector_option(f"{OPTIONS} {named}", cores=2, environ={}) == "-XX:+UseSerialGC"
    assert collector_option(OPTIONS, cores=2, environ={"JAVA_TOOL_OPTIONS": named}) == "-XX:+UseSerialGC"
