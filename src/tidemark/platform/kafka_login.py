"""Databricks shades its Kafka client, and refuses the login modules of the unshaded one."""

from __future__ import annotations

from tidemark.platform.session import on_databricks


def login_module(mechanism: str) -> str:
    """The Java class of this SASL mechanism's login module."""
    prefix = "kafkashaded." if on_databricks() else ""
    kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f"{prefix}org.apache.kafka.common.security.{kind}"
