# Databricks notebook source
# MAGIC %md
# MAGIC # Replay
# MAGIC Dead letters through the pipeline again. A dry run, the default, says what would happen.

# COMMAND ----------

# Opened by a person, it brings the package: the wheel of the deployment, or the checkout it lies in.
import importlib.util
import shlex
from pathlib import Path

if importlib.util.find_spec("tidemark") is None:
    context = dbutils.notebook.entry_point.getDbutils().notebook().getContext()
    here = Path("/Workspace" + context.notebookPath().get())
    root = next(p for p in [*here.parents, *Path.cwd().parents] if (p / "conf/tidemark.yml").exists())
    package = next(iter(sorted(root.glob("app/*.whl"))), root)
    get_ipython().run_line_magic("pip", f"install --quiet {shlex.quote(str(package))}")
    dbutils.library.restartPython()

# COMMAND ----------

dbutils.widgets.text("config", "")
dbutils.widgets.text("target", "staging")
dbutils.widgets.text("catalog", "dev")
dbutils.widgets.text("schema", "streaming")
dbutils.widgets.text("kafka_bootstrap", "")
dbutils.widgets.text("kafka_service_credential", "")
dbutils.widgets.text("secret_scope", "")
dbutils.widgets.text("stream", "")
dbutils.widgets.text("codes", "")
dbutils.widgets.text("since", "")
dbutils.widgets.text("until", "")
dbutils.widgets.dropdown("dry_run", "true", ["true", "false"])

# COMMAND ----------

from tidemark.operations.dead_letter_jobs import replay_job
from tidemark.platform.notebook import open_notebook

run = open_notebook(dbutils)
replay_job(
    spark,
    run.settings,
    run.values["stream"],
    codes=run.many(run.values["codes"]),
    since=run.values["since"],
    until=run.values["until"],
    dry_run=run.values["dry_run"] != "false",
)
