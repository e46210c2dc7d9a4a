"""`logging.spark-level`: what our log4j2.properties makes of it in Spark's own process."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources

import pytest
from pyspark.sql import SparkSession

PROPERTY = "tidemark.spark.level"
SESSION = """
from tidemark.platform.session import local_session
local_session(extra_conf={"spark.driver.extraJavaOptions": "-Dtidemark.spark.level=info"}).stop()
"""


@pytest.mark.parametrize("level", ["debug", "info", "warn", "error", "off"])
def test_sparks_own_lines_have_the_level_of_the_configuration(spark: SparkSession, level: str) -> None:
    jvm = spark._jvm
    assert jvm is not None
    before = jvm.System.setProperty(PROPERTY, level)
    file = str(resources.files("tidemark.platform").joinpath("log4j2.properties"))
    core = jvm.org.apache.logging.log4j.core.config
    name = f"spark-level-{level}"
    source = core.ConfigurationSource.fromUri(jvm.java.io.File(file).toURI())
    try:
        context = jvm.org.apache.logging.log4j.core.LoggerContext(name)
        found = core.ConfigurationFactory.getInstance().getConfiguration(context, source)
        found.initialize()
        assert found.getRootLogger().getLevel().toString() == level.upper()
    finally:
        jvm.System.setProperty(PROPERTY, before) if before else jvm.System.clearProperty(PROPERTY)


def test_a_process_of_its_own_logs_at_that_level_and_not_at_that_of_a_shell() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=120, check=True
    )
    assert "INFO SparkContext: Running Spark version" in done.stderr
    assert "Setting default log level" not in done.stderr
