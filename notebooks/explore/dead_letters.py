# Databricks notebook source
# MAGIC %md
# MAGIC # Browse dead letters
# MAGIC What was rejected, by code, and what became of it since.

# COMMAND ----------

dbutils.widgets.text("config", "../../conf/tidemark.yml")
dbutils.widgets.text("target", "")
dbutils.widgets.text("catalog", "")
dbutils.widgets.text("schema", "")
dbutils.widgets.text("kafka_bootstrap", "")
dbutils.widgets.text("kafka_service_credential", "")
dbutils.widgets.text("secret_scope", "")
dbutils.widgets.text("stream", "user-events")

# COMMAND ----------

from tidemark.operations.dead_letter_jobs import letters_of_stream
from tidemark.platform.notebook import open_notebook

run = open_notebook(dbutils)
letters = letters_of_stream(spark, run.settings, run.values["stream"])
display(letters.groupBy("failure_code", "status").count().orderBy("count", ascending=False))

# COMMAND ----------

text = "make_valid_utf8(string(message_payload)) AS text"
shown = letters.selectExpr("letter_id", "failure_code", "failure_message", "status", "failed_at", text)
display(shown.orderBy("failed_at", ascending=False).limit(100))
