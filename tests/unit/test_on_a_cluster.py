"""Settings of a driver whose tasks run elsewhere, and what is made of an executor's death."""

from __future__ import annotations

import pytest

from tidemark.contract.failures import Action
from tidemark.contract.marks import Marks
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.platform.spark_conf import AVRO_LIMITS, is_cluster, local_conf, spark_master
from tidemark.resilience.classification import classifier_for

MASTER = "spark://10.0.0.1:7077"


def test_executors_get_the_options_for_decoding_when_they_are_own_processes() -> None:
    options = local_conf([], master=MASTER, environ={})["spark.executor.extraJavaOptions"].split()
    assert set(AVRO_LIMITS) <= set(options)
    assert "-Duser.timezone=UTC" in options
    assert "spark.executor.extraJavaOptions" not in local_conf([], environ={})


def test_a_cluster_decides_itself_what_this_machine_would_get_wrong() -> None:
    ours, theirs = local_conf([], environ={}), local_conf([], master=MASTER, environ={})
    assert set(ours) - set(theirs) == {
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.ui.enabled",
        "spark.sql.ui.explainMode",
        "spark.default.parallelism",
        "spark.sql.shuffle.partitions",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism",
    }


@pytest.mark.parametrize(
    ("master", "elsewhere"),
    [
        *(("local", False), ("local[*]", False), ("local[2,3]", False)),
        *(("local-cluster[2,1,512]", True), (MASTER, True), ("yarn", True)),
    ],
)
def test_tasks_run_elsewhere_unless_the_master_is_this_process(master: str, elsewhere: bool) -> None:
    assert is_cluster(master) is elsewhere


def test_the_master_comes_from_the_environment() -> None:
    assert spark_master({"TIDEMARK_SPARK_MASTER": MASTER}) == MASTER
    assert spark_master({"TIDEMARK_SPARK_MASTER": ""}) == spark_master({}) == "local[*]"


def test_the_stream_starts_again_when_rows_that_an_executor_kept_are_gone() -> None:
    """A retry would look for the same rows again."""
    reported = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 9.0 failed 4"
        " times, most recent failure: Lost task 1.3 in stage 9.0 (TID 41) (127.0.0.1 executor 2):"
        " org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_12_1 not"
        " found! Either the executor that originally checkpointed this partition is no longer alive, or the"
        " original RDD is unpersisted. SQLSTATE: 56000\n"
        "\tat org.apache.spark.rdd.LocalCheckpointRDD.compute(LocalCheckpointRDD.scala:60)"
    )
    assert classifier_for(plug_ins=()).classify(reported).action is Action.RESTART_QUERY


def test_a_batch_holds_at_most_the_offsets_between_its_bounds() -> None:
    assert Bounds(Marks({0: 5, 1: 7}), Marks({0: 9, 1: 7, 2: 3})).offsets == 7
