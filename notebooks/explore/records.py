# Databricks notebook source
# MAGIC %md
# MAGIC # Step through records
# MAGIC An offset range of one partition, from its bytes to its route: read, decode, validate, classify.

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
dbutils.widgets.text("partition", "0")
dbutils.widgets.text("first_offset", "0")
dbutils.widgets.text("records", "20")

# COMMAND ----------

from tidemark.operations.jobs import envelopes_of
from tidemark.platform.notebook import open_notebook
from tidemark.transform import SchemaRegistry, decode_plan, transform, with_registered

run = open_notebook(dbutils)
stream = run.settings.stream(run.values["stream"])
partition, first, count = (int(run.values[name]) for name in ("partition", "first_offset", "records"))
envelopes = envelopes_of(
    spark, run.settings, run.values["stream"], partition=partition, first=first, count=count
)
display(envelopes.selectExpr("*", "make_valid_utf8(string(message_payload)) AS text"))

# COMMAND ----------

# Decoded, validated and classified as the stream does it: the route of each, and why.
plan = decode_plan(stream, base_dir=run.settings.config_dir, spark=spark)
classified = transform(envelopes, with_registered(envelopes, plan, SchemaRegistry.of(stream.avro)))
display(classified.select("stream_offset", "route", "failure.code", "failure.stage", "failure.message"))

# COMMAND ----------

display(classified.where("route = 'accepted'").select("row.*"))
