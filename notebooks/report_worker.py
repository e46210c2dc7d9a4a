# Databricks notebook source
# MAGIC %md
# MAGIC # Report worker
# MAGIC Takes report requests from their topic, makes the reports and archives them.

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
dbutils.widgets.text("run_minutes", "")

# COMMAND ----------

from tidemark.platform.notebook import open_notebook
from tidemark.reports.job import report_worker_job

run = open_notebook(dbutils)
report_worker_job(spark, run.settings, minutes=float(run.values["run_minutes"] or 0) or None)
