# Databricks notebook source
# MAGIC %md
# MAGIC # Ingest
# MAGIC Kafka to Delta tables, each record exactly once; what cannot land goes to the dead letter topic.

# COMMAND ----------

dbutils.widgets.text("config", "../conf/tidemark.yml")
dbutils.widgets.text("target", "")
dbutils.widgets.text("catalog", "")
dbutils.widgets.text("schema", "")
dbutils.widgets.text("kafka_bootstrap", "")
dbutils.widgets.text("kafka_service_credential", "")
dbutils.widgets.text("secret_scope", "")
dbutils.widgets.text("streams", "")
dbutils.widgets.dropdown("trigger", "availableNow", ["availableNow", "processingTime"])

# COMMAND ----------

from tidemark.operations.jobs import ingest_job
from tidemark.platform.notebook import open_notebook

run = open_notebook(dbutils)
ingest_job(spark, run.settings, run.streams, available_now=run.available_now)
