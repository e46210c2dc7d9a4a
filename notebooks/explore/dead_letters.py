# Databricks notebook source
# MAGIC %md
# MAGIC # Browse dead letters
# MAGIC What was rejected, by code, and what became of it since.

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
dbutils.widgets.text("stream", "user-events")

# COMMAND ----------

from tidemark.operations.dead_letter_jobs import dead_letters_of_stream
from tidemark.platform.notebook import open_notebook

run = open_notebook(dbutils)
dead_letters = dead_letters_of_stream(spark, run.settings, run.values["stream"])
display(dead_letters.groupBy("failure_code", "status").count().orderBy("count", ascending=False))

# COMMAND ----------

text = "make_valid_utf8(string(message_payload)) AS text"
shown = dead_letters.selectExpr("letter_id", "failure_code", "failure_message", "status", "failed_at", text)
display(shown.orderBy("failed_at", ascending=False).limit(100))
