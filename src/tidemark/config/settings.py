"""The whole configuration: `ConfigurationFile` mirrors the file, `Settings` has the resolved values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import Field

from tidemark.config.base import Section
from tidemark.config.destination import TableRef, location, table_ref
from tidemark.config.kafka import TLS_FILES, KafkaSettings
from tidemark.config.listener import Listener
from tidemark.config.reading.faults import Fault, KeyPath, Place, fault_at
from tidemark.config.redaction import redacted
from tidemark.config.reports import Reports
from tidemark.config.sections import (
    Application,
    Aws,
    BreakerSettings,
    Connector,
    KafkaNative,
    LoggingSettings,
    MetricsSettings,
    S3Settings,
)
from tidemark.config.stream import Destination, Mode, Stream
from tidemark.contract.errors import UsageError


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
        description="Local folder for files that outlive a process: jars, breaker states, the local broker.",
        json_schema_extra={"used_by": "all commands"},
    )


@dataclass(frozen=True)
class Settings:
    """Validated, resolved, frozen and picklable values of `load_settings` or `parse_settings`.

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
    places: Mapping[KeyPath, Place] = field(default_factory=dict, repr=False, compare=False)

    def stream(self, name: str) -> Stream:
        """The stream of that name. Raises UsageError with the known names."""
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
        """The tables that the stream writes: `decoded`, `landing`, or both."""
        stream = self.stream(name)
        found: dict[str, TableRef] = {}
        if stream.destination is not None:
            found["decoded"] = self.table(stream.destination, scheme=scheme)
        if stream.landing is not None:
            found["landing"] = self.table(stream.landing.destination, scheme=scheme)
        return found

    def path_of(self, written: str) -> Path:
        """A file that the configuration names (schemas, certificates), relative to the file's folder."""
        return self.config_dir / os.path.expanduser(written)

    def location(self, written: str) -> str:
        """The absolute path of a folder that the configuration names, relative to the project's folder."""
        return location(written, root=self.root)

    def fault(self, path: KeyPath, problem: str, hint: str = "") -> Fault:
        """A fault of a later check, with the file and line of its key."""
        return fault_at(self.places, (path, problem, hint), file=str(self.file or "configuration"))

    def redacted(self) -> dict[str, Any]:
        """Every key and value in force, with secrets masked, for people and logs."""
        return redacted(self.source)


def settings_of(
    model: ConfigurationFile,
    *,
    config_dir: Path,
    root: Path,
    file: Path | None = None,
    target: str | None = None,
    places: Mapping[KeyPath, Place] | None = None,
) -> Settings:
    """Resolve defaults that depend on other keys, and every relative folder."""
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
        kafka=_with_absolute_files(model.kafka, config_dir),
        s3=model.aws.s3,
        streams=streams,
        breaker=model.breaker,
        logging=model.logging,
        metrics=model.metrics,
        listener=model.listener,
        reports=model.reports,
        kafka_native=model.kafka_native.idempotency.enabled,
        root=root,
        config_dir=config_dir,
        checkpoint_root=location(model.checkpoint_root, root=root),
        state_dir=Path(location(model.state_dir, root=root)),
        file=file,
        target=target,
        source=resolved.model_dump(by_alias=True, mode="json"),
        places=dict(places or {}),
    )


def _with_absolute_files(kafka: KafkaSettings, config_dir: Path) -> KafkaSettings:
    """Certificates are relative to the configuration's folder, not to that of the process."""
    tls = kafka.security.tls
    written = {name: getattr(tls, name) for name in TLS_FILES}
    absolute = {name: str(config_dir / os.path.expanduser(file)) for name, file in written.items() if file}
    security = kafka.security.model_copy(update={"tls": tls.model_copy(update=absolute)})
    return kafka.model_copy(update={"security": security})
