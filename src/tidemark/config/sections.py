"""The sections other than `kafka` and the streams: storage, breaker, metrics, logs."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from tidemark.config.base import Misread, Section
from tidemark.config.stream import Destination, Stream


class Application(Section, used_by="logs, metrics"):
    name: str = Field("tidemark", min_length=1, description="Name of this deployment in logs and metrics.")


class S3Settings(Section, used_by="Spark, report archive"):
    """Access to `s3a://`. Leave it out on Databricks: Unity Catalog has the credentials."""

    endpoint: str | None = Field(None, description="URL of an S3-compatible server; AWS's own by default.")
    region: str = Field("us-west-2", min_length=1, description="Region of the buckets.")
    access_key_id: SecretStr | None = Field(
        None,
        description="With `secret-access-key`; otherwise the usual chain (environment, profile, instance).",
    )
    secret_access_key: SecretStr | None = Field(None, description="Never printed.")
    session_token: SecretStr | None = Field(None, description="Of temporary credentials; never printed.")
    path_style_access: bool | None = Field(
        None, description="`endpoint/bucket` instead of `bucket.endpoint`; on where an endpoint is set."
    )

    @property
    def path_style(self) -> bool:
        return self.path_style_access if self.path_style_access is not None else self.endpoint is not None

    @field_validator("endpoint")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"^https?://[^\s/@]+/?$", value):
            raise ValueError("is not a URL such as `https://s3.example.com` or `http://localhost:9000`")
        return value.rstrip("/") if value else None


class Aws(Section, used_by="Spark"):
    s3: S3Settings = Field(default_factory=S3Settings)


class NativeIdempotency(Section, used_by="Spark"):
    enabled: bool = Field(
        True,
        description="Mode of streams without one: `true` is kafka-native, `false` is fingerprint. "
        "`false` contradicts a stream with `mode: kafka-native`.",
    )


class KafkaNative(Section, used_by="Spark"):
    idempotency: NativeIdempotency = Field(default_factory=NativeIdempotency)


class Connector(Section, used_by="Spark"):
    topics: dict[str, Stream] = Field(
        min_length=1,
        description="The streams by name. The name is part of the table's ledger and cannot change.",
    )


class BreakerSettings(Section, used_by="pipeline, reports"):
    """CLOSED → OPEN after `failure-threshold` failures in a row → HALF_OPEN after `open-seconds` →
    CLOSED after `success-threshold` successes.
    """

    failure_threshold: int = Field(5, ge=1, description="Failures in a row that open it.")
    open_seconds: float = Field(60, gt=0, description="Seconds until one probe is allowed.")
    success_threshold: int = Field(3, ge=1, description="Successful probes that close it.")


class MetricsSettings(Section, used_by="tidemark serve, ingest, listen, reports work"):
    enabled: bool = Field(
        False, description="Serve `/actuator/…` while an ingest, a listener or a report worker runs."
    )
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on; loopback needs no token.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    token: SecretStr | None = Field(
        None, description="Bearer token that requests need; required off loopback."
    )
    table: Destination | None = Field(None, description="Table that gets one row per batch, for dashboards.")
    stale_after: float = Field(
        300, gt=0, description="Seconds without a commit, while records wait, until health is DOWN."
    )
    dead_letter_share: float = Field(
        0.1, ge=0, le=1, description="Share of rejected records in 5 minutes above which health is DEGRADED."
    )

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if not self.is_loopback and (self.token is None or not self.token.get_secret_value()):
            raise Misread(self.host, "`host` can be reached from outside, so `token` must be set")
        return self


class LoggingSettings(Section, used_by="all commands"):
    format: Literal["console", "json"] = Field("console", description="Log lines for people or for programs.")
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Level of Tidemark's own lines."
    )
    spark_level: Literal["DEBUG", "INFO", "WARN", "ERROR", "OFF"] = Field(
        "ERROR", description="Level of Spark's own lines.", json_schema_extra={"used_by": "Spark"}
    )
    secret_fields: tuple[str, ...] = Field(
        (), description="Further names of log fields to mask, besides passwords, tokens, keys and payloads."
    )

    @field_validator("level", mode="before")
    @classmethod
    def _level(cls, value: object) -> object:
        upper = value.upper() if isinstance(value, str) else value
        return "WARNING" if upper == "WARN" else upper

    @field_validator("spark_level", mode="before")
    @classmethod
    def _spark_level(cls, value: object) -> object:
        upper = value.upper() if isinstance(value, str) else value
        return "WARN" if upper == "WARNING" else upper
