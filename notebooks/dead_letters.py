# Databricks notebook source
# MAGIC %md
# MAGIC # Dead letters
# MAGIC Dead letter topics to dead letter tables, each dead letter once.

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
dbutils.widgets.text("streams", "")
dbutils.widgets.dropdown("trigger", "availableNow", ["availableNow", "processingTime"])

# COMMAND ----------

from tidemark.operations.dead_letter_jobs import dead_letters_job
from tidemark.platform.notebook import open_notebook

run = open_notebook(dbutils)
dead_letters_job(spark, run.settings, run.streams, available_now=run.available_now)
