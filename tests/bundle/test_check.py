"""Every rule of `tidemark bundle check` finds its mistake, in a copy of the bundle with one wrong place."""

from __future__ import annotations

import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tidemark.bundle.check import check_bundle
from tidemark.bundle.compute import Flavour, compute_file, job_names
from tidemark.bundle.source import read_bundle
from tidemark.bundle.target import described
from tidemark.cli.app import main

ROOT = Path(__file__).parents[2]

MISTAKES = [
    ("bundle-shape", "databricks.yml", "sync:\n", "synch:\n"),
    ("bundle-shape", "databricks.yml", "  name: tidemark\n", "  name: !plain tidemark\n"),
    ("bundle-shape", "resources/ingest.job.yml", "resources:\n", "resource:\n"),
    ("doubled-key", "databricks.yml", "    default: streaming\n", "    default: streaming\n    default: s\n"),
    (
        "doubled-key",
        "resources/checkpoints.volume.yml",
        "    checkpoints:\n",
        "    ingest:\n",
    ),
    ("undefined-variable", "resources/ingest.job.yml", "${var.config_target}", "${var.config_targt}"),
    ("undefined-variable", "databricks.yml", "      catalog: dev\n", "      catalogue: dev\n"),
    (
        "undefined-resource",
        "resources/ingest.job.yml",
        "resources.schemas.streaming",
        "resources.schemas.sea",
    ),
    ("variable-form", "databricks.yml", "    type: complex\n", "    type: string\n"),
    (
        "variable-form",
        "databricks.yml",
        "    description: Databricks runtime of the job clusters; 19.x is Spark 4.2\n",
        "",
    ),
    ("target-form", "databricks.yml", "mode: development", "mode: prod"),
    ("target-form", "databricks.yml", "  name: tidemark\n", "  name: tidemark\n  engine: terraform\n"),
    ("target-form", "databricks.yml", "      root_path: ", "      state_path: "),
    (
        "literal-pause",
        "resources/maintenance.job.yml",
        "        timezone_id: UTC",
        "        timezone_id: UTC\n        pause_status: UNPAUSED",
    ),
    ("run-as", "databricks.yml", "    git:\n", "    run_as: {user_name: a@example.com}\n    git:\n"),
    (
        "secret-in-a-conf",
        "databricks.yml",
        "node_type_id: ${var.node_type_id}",
        "node_type_id: '{{secrets/a/b}}'",
    ),
    (
        "one-trigger",
        "resources/ingest.job.yml",
        "      max_concurrent_runs: 1\n",
        "      max_concurrent_runs: 1\n      trigger: {periodic: {interval: 1, unit: HOURS}}\n",
    ),
    ("max-concurrent-runs", "resources/ingest.job.yml", "      max_concurrent_runs: 1\n", ""),
    ("max-concurrent-runs", "resources/ingest.job.yml", "runs: 1\n", "runs: 4\n"),
    ("parameter-is-text", "resources/ingest.job.yml", 'default: ""', "default: 5"),
    (
        "continuous-job",
        "resources/ingest.job.yml",
        "- task_key: ingest\n",
        "- task_key: ingest\n          max_retries: 1\n",
    ),
    (
        "compute",
        "resources/compute.prod.yml",
        "job_cluster_key: stream\n            libraries",
        "job_cluster_key: lost\n            libraries",
    ),
    (
        "compute",
        "resources/compute.dev.yml",
        "            environment_key: wheel\n          environments",
        "            description: x\n          environments",
    ),
    ("serverless", "resources/compute.dev.yml", "default: availableNow", "default: processingTime"),
    (
        "serverless",
        "resources/compute.dev.yml",
        "            environment_key: wheel\n",
        "            environment_key: wheel\n            libraries: [{whl: ../dist/*.whl}]\n",
    ),
    (
        "serverless-configuration",
        "conf/tidemark.yml",
        "      cob:\n",
        "      idempotency: {mode: fingerprint}\n      cob:\n",
    ),
    (
        "serverless-configuration",
        "conf/tidemark.staging.yml",
        "checkpoint-root: /Volumes",
        "checkpoint-root: /tmp",
    ),
    ("missing-notebook", "resources/ingest.job.yml", "../notebooks/ingest.py", "../notebooks/ingest"),
    ("notebook-form", "notebooks/ingest.py", "# Databricks notebook source\n", "# A notebook\n"),
    ("notebook-form", "notebooks/ingest.py", "run = open", "for _ in (): pass\nrun = open"),
    ("notebook-form", "notebooks/ingest.py", "run = open", "\n" * 60 + "run = open"),
    ("parameter-drift", "notebooks/ingest.py", 'widgets.text("streams"', 'widgets.text("topics"'),
    (
        "jvm-internals",
        "src/tidemark/operations/jobs.py",
        "info = tables.describe(spark, target.table)",
        "info = tables.describe(spark.sparkContext, target.table)",
    ),
    ("empty-grant", "resources/streaming.schema.yml", "privileges: [USE_SCHEMA, SELECT]", "privileges: []"),
    (
        "readable-secrets",
        "databricks.yml",
        "    git:\n",
        "    permissions: [{level: CAN_VIEW, group_name: users}]\n    git:\n",
    ),
    (
        "literal-schema",
        "resources/checkpoints.volume.yml",
        "${resources.schemas.streaming.name}",
        "streaming",
    ),
    ("warehouse", "resources/lag.alert.yml", "          warehouse_id: ${var.warehouse_id}\n", ""),
    (
        "dashboard-file",
        "dashboards/streams.lvdash.json",
        "FROM batch_metrics",
        "FROM ${var.catalog}.batch_metrics",
    ),
    ("dashboard-file", "resources/streams.dashboard.yml", "streams.lvdash.json", "streems.lvdash.json"),
    ("unknown-table", "resources/lag.alert.yml", ".batch_metrics", ".batches"),
    ("unknown-table", "dashboards/streams.lvdash.json", "FROM batch_metrics", "FROM batches"),
    ("compute-drift", "resources/compute.prod.yml", "task_retry_mode: ON_FAILURE", "task_retry_mode: NEVER"),
    ("typed-model", "resources/ingest.job.yml", "      queue:\n", "      que:\n"),
    ("typed-model", "resources/checkpoints.volume.yml", "volume_type: MANAGED", "volume_type: OURS"),
]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A copy of this project's bundle."""
    shutil.copy(ROOT / "databricks.yml", tmp_path)
    for folder in ("app", "resources", "notebooks", "conf", "dashboards"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "src/tidemark/operations").mkdir(parents=True)
    shutil.copy(ROOT / "src/tidemark/operations/jobs.py", tmp_path / "src/tidemark/operations")
    return tmp_path


def test_the_bundle_has_no_fault() -> None:
    assert check_bundle(ROOT) == []


@pytest.mark.parametrize(("rule", "file", "right", "wrong"), MISTAKES)
def test_a_mistake_is_found_with_its_place_and_its_fix(
    bundle: Path, rule: str, file: str, right: str, wrong: str
) -> None:
    path = bundle / file
    text = path.read_text()
    assert right in text, "the sample has nothing to spoil"
    path.write_text(text.replace(right, wrong, 1))
    found = [f for f in check_bundle(bundle) if f.rule == rule]
    assert found, f"{rule} was not found"
    assert all(f.fix and f.problem and f.line > 0 for f in found)


def test_every_pattern_of_the_sync_matches_a_file_of_a_fresh_clone() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = listed.stdout.splitlines()
    patterns = read_bundle(ROOT).main.values["sync"]["include"]
    # One that matches nothing is a warning of the CLI, which `validate --strict` refuses.
    assert [p for p in patterns if not any(fnmatch(name, p) for name in files)] == []


def test_every_rule_has_a_mistake() -> None:
    from tidemark.bundle.check import RULES

    assert {rule.__name__.replace("_", "-") for rule in RULES} - {"typed-models"} <= {m[0] for m in MISTAKES}


@pytest.mark.parametrize("flavour", list(Flavour))
@pytest.mark.parametrize("target", ["dev", "staging", "prod"])
def test_every_target_is_right_in_both_flavours(bundle: Path, target: str, flavour: Flavour) -> None:
    assert main(["bundle", "compute", flavour.value, "--target", target, "--folder", str(bundle)]) == 0
    assert check_bundle(bundle) == []
    text = compute_file(target, flavour, job_names(read_bundle(bundle)))
    assert (bundle / f"resources/compute.{target}.yml").read_text() == text


def test_a_developers_copy_has_names_of_its_own_and_nothing_runs_by_itself() -> None:
    dev = described(read_bundle(ROOT), "dev", user="jane@example.com")
    assert dev.resources["schemas"]["streaming"]["name"] == "dev_jane_streaming"
    assert dev.resources["volumes"]["checkpoints"]["schema_name"] == "dev_jane_streaming"
    ingest = dev.resources["jobs"]["ingest"]
    assert ingest["name"] == "[dev jane] ingest"
    assert ingest["schedule"]["pause_status"] == "PAUSED"
    assert {"name": "schema", "default": "dev_jane_streaming"} in ingest["parameters"]


def test_report_workers_are_as_many_as_the_configuration_says(bundle: Path) -> None:
    with (bundle / "conf/tidemark.yml").open("a") as conf:
        conf.write("\nreports: {workers: 3, database: 'postgresql+psycopg://u@h/d'}\n")
    found = [f for f in check_bundle(bundle) if f.rule == "max-concurrent-runs"]
    assert {f.fix for f in found} == {
        "set the variable report_workers to reports.workers of conf/, which is 3"
    }
    path = bundle / "databricks.yml"
    text = path.read_text()
    declared = text.index("  report_workers:")
    path.write_text(text[:declared] + text[declared:].replace("default: 1", "default: 3", 1))
    assert check_bundle(bundle) == []


def test_two_developers_have_scopes_of_their_own() -> None:
    source = read_bundle(ROOT)
    scopes = {
        described(source, "dev", user=user).resources["secret_scopes"]["kafka"]["name"]
        for user in ("jane@example.com", "joe@example.com")
    }
    assert scopes == {"tidemark-dev-jane", "tidemark-dev-joe"}


def test_required_variables_have_no_default_and_the_only_reader_is_the_deployer() -> None:
    variables = read_bundle(ROOT).main.values["variables"]
    required = {name for name, each in variables.items() if "default" not in each}
    assert required == {"catalog", "kafka_bootstrap", "node_type_id", "warehouse_id"}
    assert variables["readers"]["default"] == "${workspace.current_user.userName}"


def test_all_streams_share_one_cluster(bundle: Path) -> None:
    prod = described(read_bundle(ROOT), "prod")
    ingest = prod.resources["jobs"]["ingest"]
    assert [task["task_key"] for task in ingest["tasks"]] == ["ingest", "dead_letters"]
    assert {task["job_cluster_key"] for task in ingest["tasks"]} == {"stream"}
    assert [name for name, job in prod.resources["jobs"].items() if "continuous" in job] == ["ingest"]
    assert prod.resources["jobs"]["report_worker"]["schedule"]["pause_status"] == "PAUSED"


def test_the_command_ends_with_2_and_names_the_line_when_there_is_a_fault(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle / "resources/ingest.job.yml"
    path.write_text(path.read_text().replace("runs: 1", "runs: 2"))
    assert main(["bundle", "check", "--folder", str(bundle)]) == 2
    assert "resources/ingest.job.yml:8: max-concurrent-runs" in capsys.readouterr().out
