"""The Databricks bundle, looked at without a workspace: read, merged for a target, checked."""
