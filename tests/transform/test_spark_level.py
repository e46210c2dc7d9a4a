"""`logging.spark-level`: what our log4j2.properties makes of it in Spark's own process."""

from __future__ import annotations

from importlib import resources

import pytest
from pyspark.sql import SparkSession

PROPERTY = "tidemark.spark.level"


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
