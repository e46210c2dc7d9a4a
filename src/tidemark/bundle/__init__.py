"""The Databricks bundle, checked without a workspace: read, merged for a target, compared with rules."""
