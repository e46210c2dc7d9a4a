"""What differs between Databricks and open-source Spark. Nothing outside this room may know."""
