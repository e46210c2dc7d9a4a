# Databricks notebook source
# MAGIC %md
# MAGIC # Create tables
# MAGIC The streams' tables, where they are absent. Running it again changes nothing.

# COMMAND ----------

dbutils.widgets.text("config", "../conf/tidemark.yml")
dbutils.widgets.text("target", "")
dbutils.widgets.text("catalog", "")
dbutils.widgets.text("schema", "")
dbutils.widgets.text("kafka_bootstrap", "")
dbutils.widgets.text("kafka_service_credential", "")
dbutils.widgets.text("secret_scope", "")
dbutils.widgets.text("streams", "")

# COMMAND ----------

from tidemark.operations.jobs import create_tables_job
from tidemark.platform.notebook import open_notebook

run = open_notebook(dbutils)
create_tables_job(spark, run.settings, run.streams)
