# Databricks notebook source
# MAGIC %md
# MAGIC # Replay
# MAGIC Dead letters through the pipeline again. A dry run, the default, says what would happen.

# COMMAND ----------

dbutils.widgets.text("config", "../conf/tidemark.yml")
dbutils.widgets.text("target", "")
dbutils.widgets.text("catalog", "")
dbutils.widgets.text("schema", "")
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
    dry_run=run.values["dry_run"] == "true",
)
