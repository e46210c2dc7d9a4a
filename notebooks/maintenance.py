# Databricks notebook source
# MAGIC %md
# MAGIC # Maintenance
# MAGIC Compacts and vacuums the tables; safe while streams write.

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

from tidemark.operations.maintenance_job import maintenance_job
from tidemark.platform.notebook import open_notebook

run = open_notebook(dbutils)
maintenance_job(spark, run.settings, run.streams)
