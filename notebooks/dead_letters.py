# Databricks notebook source
# MAGIC %md
# MAGIC # Dead letters
# MAGIC Dead letter topics to dead letter tables, each dead letter once.

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

from tidemark.operations.dead_letter_jobs import dead_letters_job
from tidemark.platform.notebook import open_notebook

run = open_notebook(dbutils)
dead_letters_job(spark, run.settings, run.streams, available_now=run.available_now)
