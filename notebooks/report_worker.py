# Databricks notebook source
# MAGIC %md
# MAGIC # Report worker
# MAGIC Takes report requests from their topic, makes the reports and archives them.

# COMMAND ----------

dbutils.widgets.text("config", "../conf/tidemark.yml")
dbutils.widgets.text("target", "")
dbutils.widgets.text("catalog", "")
dbutils.widgets.text("schema", "")
dbutils.widgets.text("kafka_bootstrap", "")
dbutils.widgets.text("kafka_service_credential", "")
dbutils.widgets.text("secret_scope", "")
dbutils.widgets.text("run_minutes", "")

# COMMAND ----------

from tidemark.platform.notebook import open_notebook
from tidemark.reports.job import report_worker_job

run = open_notebook(dbutils)
report_worker_job(spark, run.settings, minutes=float(run.values["run_minutes"] or 0) or None)
