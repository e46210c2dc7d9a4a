"""The whole configuration: `ConfigurationFile` mirrors the file, `Settings` is what the rest works with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from tidemark.config.base import Section
from tidemark.config.destination import TableRef, location, table_ref
from tidemark.config.kafka import KafkaSettings
from tidemark.config.listener import Listener
from tidemark.config.redaction import redacted
from tidemark.config.reports import Reports
from tidemark.config.stream import Destination, Mode, Stream
from tidemark.contract.errors import UsageError


class Application(Section):
    used_by: ClassVar[str] = "logs, metrics"

    name: str = Field("tidemark", min_length=1, description="Name of this deployment in logs and metrics.")


class S3Settings(Section):
    """How `s3a://` is reached. On Databricks leave it out: Unity Catalog has the credentials."""

    used_by: ClassVar[str] = "Spark, report archive"

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


class Aws(Section):
    used_by: ClassVar[str] = "Spark"

    s3: S3Settings = Field(default_factory=S3Settings)


class NativeIdempotency(Section):
    used_by: ClassVar[str] = "Spark"

    enabled: bool = Field(
        True,
        description="Mode of streams that name none: `true` is kafka-native, `false` is fingerprint. "
        "`false` contradicts a stream with `mode: kafka-native`.",
    )


class KafkaNative(Section):
    used_by: ClassVar[str] = "Spark"

    idempotency: NativeIdempotency = Field(default_factory=NativeIdempotency)


class Connector(Section):
    used_by: ClassVar[str] = "Spark"

    topics: dict[str, Stream] = Field(
        min_length=1, description="The streams by name. The name goes into the table's ledger: it stays."
    )


class BreakerSettings(Section):
    """CLOSED → OPEN after `failure-threshold` failures in a row → HALF_OPEN after `open-seconds` →
    CLOSED after `success-threshold` successes.
    """

    used_by: ClassVar[str] = "pipeline, reports"

    failure_threshold: int = Field(5, ge=1, description="Failures in a row that open it.")
    open_seconds: float = Field(60, gt=0, description="Seconds until one probe is let through.")
    success_threshold: int = Field(3, ge=1, description="Successful probes that close it.")


class MetricsSettings(Section):
    used_by: ClassVar[str] = "tidemark serve, ingest"

    enabled: bool = Field(False, description="Serve `/actuator/…` while `tidemark ingest` runs.")
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on; loopback needs no token.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    token: SecretStr | None = Field(None, description="Bearer token asked for; required off loopback.")
    table: Destination | None = Field(None, description="Table that gets one row per batch, for dashboards.")

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if not self.is_loopback and (self.token is None or not self.token.get_secret_value()):
            raise ValueError(f"host {self.host} can be reached from outside, so `token` must be set")
        return self


class LoggingSettings(Section):
    used_by: ClassVar[str] = "all commands"

    format: Literal["console", "json"] = Field("console", description="Lines for people or for programs.")
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Of Tidemark's own lines."
    )
    spark_level: Literal["DEBUG", "INFO", "WARN", "ERROR", "OFF"] = Field(
        "ERROR", description="Of Spark's own lines.", json_schema_extra={"used_by": "Spark"}
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


class ConfigurationFile(Section):
    """The file. `spring.application` and `spring.kafka` mean the same as `application` and `kafka`."""

    application: Application = Field(default_factory=Application)
    kafka: KafkaSettings
    kafka_native: KafkaNative = Field(default_factory=KafkaNative)
    connector: Connector
    aws: Aws = Field(default_factory=Aws)
    breaker: BreakerSettings = Field(default_factory=BreakerSettings)
    logging: LoggingSettings = Field(default_factory=LoggingSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    listener: Listener | None = Field(None, description="An at-least-once consumer group; `tidemark listen`.")
    reports: Reports | None = Field(None, description="The report workflow; `tidemark reports`.")
    checkpoint_root: str = Field(
        ".tidemark/checkpoints",
        min_length=1,
        description="Folder of the streaming queries' checkpoints: a path, a volume or an `s3a://` URL.",
        json_schema_extra={"used_by": "Spark"},
    )
    state_dir: str = Field(
        ".tidemark",
        min_length=1,
        description="Local folder for what outlives a process: jars, breaker states, the local broker.",
        json_schema_extra={"used_by": "all commands"},
    )


@dataclass(frozen=True)
class Settings:
    """Validated, resolved and frozen; picklable. Made by `load_settings` or `parse_settings` only.

    Streams have their idempotency mode and starting offsets filled in. `root` is the project's
    folder: that of the configuration file, or its parent where that one is called `conf` or `config`.
    Relative destinations, `checkpoint-root` and `state-dir` lie under it; schema files lie under
    `config_dir`, the file's own folder.
    """

    application_name: str
    kafka: KafkaSettings
    s3: S3Settings
    streams: Mapping[str, Stream]
    breaker: BreakerSettings
    logging: LoggingSettings
    metrics: MetricsSettings
    kafka_native: bool
    root: Path
    config_dir: Path
    checkpoint_root: str
    state_dir: Path
    file: Path | None = None
    target: str | None = None
    listener: Listener | None = None
    reports: Reports | None = None
    source: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def stream(self, name: str) -> Stream:
        """The stream of that name. Raises UsageError with the names there are."""
        if name not in self.streams:
            near = get_close_matches(name, self.streams, n=1, cutoff=0.5)
            raise UsageError(
                f"no stream is named {name}",
                (f"did you mean {near[0]}? " if near else "")
                + f"the configuration has {', '.join(self.streams)}",
            )
        return self.streams[name]

    def table(self, destination: Destination, *, scheme: str = "s3a") -> TableRef:
        return table_ref(destination, root=self.root, scheme=scheme)

    def tables(self, name: str, *, scheme: str = "s3a") -> dict[str, TableRef]:
        """What the stream writes: `decoded` and `landing`, those of the two that it has."""
        stream = self.stream(name)
        found: dict[str, TableRef] = {}
        if stream.destination is not None:
            found["decoded"] = self.table(stream.destination, scheme=scheme)
        if stream.landing is not None:
            found["landing"] = self.table(stream.landing.destination, scheme=scheme)
        return found

    def path_of(self, written: str) -> Path:
        """A file that the configuration names (schemas, certificates): relative to the file's folder."""
        return self.config_dir / Path(written).expanduser()

    def location(self, written: str) -> str:
        """A folder that the configuration names, absolute: relative to the project's folder."""
        return location(written, root=self.root)

    def redacted(self) -> dict[str, Any]:
        """Every key and value in force, secrets masked: what a person or a log may see."""
        return redacted(self.source)


def settings_of(
    model: ConfigurationFile,
    *,
    config_dir: Path,
    root: Path,
    file: Path | None = None,
    target: str | None = None,
) -> Settings:
    """Resolve the file's model: defaults that depend on other keys, and every relative folder."""
    default_mode = Mode.KAFKA_NATIVE if model.kafka_native.idempotency.enabled else Mode.FINGERPRINT
    streams: dict[str, Stream] = {}
    for name, stream in model.connector.topics.items():
        changes: dict[str, object] = {}
        if "mode" not in stream.idempotency.model_fields_set:
            changes["idempotency"] = stream.idempotency.model_copy(update={"mode": default_mode})
        if stream.starting_offsets is None:
            changes["starting_offsets"] = model.kafka.consumer.auto_offset_reset
        streams[name] = stream.model_copy(update=changes)
    resolved = model.model_copy(update={"connector": model.connector.model_copy(update={"topics": streams})})
    return Settings(
        application_name=model.application.name,
        kafka=model.kafka,
        s3=model.aws.s3,
        streams=streams,
        breaker=model.breaker,
        logging=model.logging,
        metrics=model.metrics,
        kafka_native=model.kafka_native.idempotency.enabled,
        root=root,
        config_dir=config_dir,
        checkpoint_root=location(model.checkpoint_root, root=root),
        state_dir=Path(location(model.state_dir, root=root)),
        file=file,
        target=target,
        listener=model.listener,
        reports=model.reports,
        source=resolved.model_dump(by_alias=True, mode="json"),
    )
