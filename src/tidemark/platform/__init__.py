"""The differences between Databricks and open-source Spark, hidden from all other packages."""
