"""The `kafka` section: the broker, the consumer and their security."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from tidemark.config.base import Misread, Section

HOST_AND_PORT = re.compile(
    r"^(?:[A-Za-z][A-Za-z0-9_+]*://)?(?:\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[^\s:/,@\[\]]+):(\d{1,5})$"
)
"""An IPv6 address may name its interface: `[fe80::1%eth0]:9092`."""

OWN_PROPERTIES = {
    "bootstrap.servers": "kafka.bootstrap-servers",
    "group.id": "kafka.consumer.group-id",
    "auto.offset.reset": "kafka.consumer.auto-offset-reset",
    "enable.auto.commit": "kafka.consumer.enable-auto-commit",
    "max.poll.interval.ms": "kafka.consumer.max-poll-interval-ms",
    "session.timeout.ms": "kafka.consumer.session-timeout-ms",
    "max.poll.records": "kafka.consumer.max-poll-records",
    "fetch.max.wait.ms": "kafka.consumer.fetch-max-wait-ms",
    "fetch.wait.max.ms": "kafka.consumer.fetch-max-wait-ms",
    "isolation.level": "kafka.consumer.isolation-level",
    "client.id": "kafka.consumer.client-id",
    "security.protocol": "kafka.security.protocol",
    "sasl.mechanism": "kafka.security.sasl.mechanism",
    "sasl.mechanisms": "kafka.security.sasl.mechanism",
    "sasl.username": "kafka.security.sasl.username",
    "sasl.password": "kafka.security.sasl.password",
    "sasl.jaas.config": "kafka.security.sasl",
    "ssl.ca.location": "kafka.security.tls.ca-file",
    "ssl.truststore.location": "kafka.security.tls.ca-file",
    "ssl.certificate.location": "kafka.security.tls.certificate-file",
    "ssl.keystore.location": "kafka.security.tls.certificate-file",
    "ssl.key.location": "kafka.security.tls.key-file",
    "ssl.key.password": "kafka.security.tls.key-password",
    "ssl.endpoint.identification.algorithm": "kafka.security.tls.verify-hostname",
    "key.deserializer": "nothing: keys are read as bytes",
    "value.deserializer": "nothing: values are read as bytes",
}
"""Client properties that have a key of their own, so that they mean the same to every client."""


TLS_FILES = ("ca_file", "certificate_file", "key_file")


class Sasl(Section, used_by="Spark, admin client, listener"):
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="SASL mechanism."
    )
    username: str | None = Field(None, min_length=1, description="User name.")
    password: SecretStr | None = Field(None, description="Password; never printed.")


class Tls(Section, used_by="Spark, admin client, listener"):
    ca_file: str | None = Field(
        None, description="PEM file of the authorities to trust; the system's by default."
    )
    certificate_file: str | None = Field(
        None, description="PEM file of the client's certificate chain (mutual TLS)."
    )
    key_file: str | None = Field(None, description="PEM file of the client's private key (PKCS #8).")
    key_password: SecretStr | None = Field(None, description="Password of the private key; never printed.")
    verify_hostname: bool = Field(True, description="Compare the broker's certificate with its host name.")


class Security(Section, used_by="Spark, admin client, listener"):
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="As in Kafka's `security.protocol`."
    )
    sasl: Sasl = Field(default_factory=Sasl, description="User and password, for the SASL protocols.")
    tls: Tls = Field(default_factory=Tls, description="Certificates, for the SSL protocols.")
    service_credential: str | None = Field(
        None,
        min_length=1,
        description="Databricks only: a Unity Catalog service credential instead of all of the above.",
        json_schema_extra={"used_by": "Spark (Databricks)"},
    )

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")


LONGEST_POLL_S = 86_400
LONGEST_SESSION_S = 3_600
"""What librdkafka takes as `max.poll.interval.ms` and as `session.timeout.ms`."""


class ConsumerSettings(Section, used_by="listener"):
    """Keys about group membership are defaults of the listener."""

    group_id: str = Field(
        "tidemark",
        min_length=1,
        max_length=249,
        description="Group that the marks are committed to, for lag tools. Nothing resumes from it.",
        json_schema_extra={"used_by": "admin client"},
    )
    auto_offset_reset: Literal["earliest", "latest"] = Field(
        "earliest",
        description="The start of a stream without marks, unless it names `starting-offsets`.",
        json_schema_extra={"used_by": "Spark, listener"},
    )
    enable_auto_commit: bool = Field(
        False,
        description="Only `false`: offsets are committed after the records are safe, never by a timer.",
        json_schema_extra={"used_by": "nobody: `true` is refused"},
    )
    max_poll_interval_ms: int = Field(
        300_000,
        ge=1,
        description="Longest time between two polls before the group takes the partitions away.",
    )
    session_timeout_ms: int = Field(
        30_000,
        ge=1,
        description="Time without a heartbeat after which the group drops the member.",
    )
    max_poll_records: int = Field(
        500, ge=1, description="Records that the listener hands over at once; its `batch-size`."
    )
    fetch_max_wait_ms: int = Field(
        100,
        ge=0,
        le=300_000,
        description="Time the broker may wait for more data before it answers a fetch. After a failure the"
        " current fetch must return first, so a long time delays every retry. Spark's reads never wait: they"
        " request existing offsets.",
    )
    isolation_level: Literal["read_committed", "read_uncommitted"] = Field(
        "read_committed",
        description="`read_committed` leaves out the records of aborted transactions.",
        json_schema_extra={"used_by": "Spark, listener"},
    )
    client_id: str | None = Field(
        None,
        min_length=1,
        description="Name of the client in the broker's logs and quotas.",
        json_schema_extra={"used_by": "admin client, listener"},
    )

    @field_validator("enable_auto_commit")
    @classmethod
    def _manual_only(cls, value: object) -> object:
        if value is True:
            raise ValueError(
                "`true` loses records: offsets would be committed by a timer, before the records are in the "
                "table; write `false`, or leave the key out"
            )
        return value

    @field_validator("isolation_level", mode="before")
    @classmethod
    def _spring_spelling(cls, value: object) -> object:
        return value.lower().replace("-", "_") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _timeouts(self) -> Self:
        if self.max_poll_interval_ms < self.session_timeout_ms:
            raise ValueError(
                f"max-poll-interval-ms ({self.max_poll_interval_ms}) is below "
                f"session-timeout-ms ({self.session_timeout_ms}), which Kafka refuses"
            )
        return self


class KafkaSettings(Section, used_by="Spark, admin client, listener"):
    bootstrap_servers: str = Field(
        min_length=1, description="One or more `host:port`, comma-separated or as a list."
    )
    consumer: ConsumerSettings = Field(default_factory=ConsumerSettings)
    security: Security = Field(default_factory=Security)
    properties: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Further options of the Kafka clients by Kafka's own names, passed on as they are. "
        "Options that have a key of their own above are refused here.",
    )

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _as_list(cls, value: object) -> object:
        return ",".join(str(v) for v in value) if isinstance(value, list | tuple) else value

    @field_validator("bootstrap_servers")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        servers = [server.strip() for server in value.split(",") if server.strip()]
        for number, server in enumerate(servers, 1):
            match = HOST_AND_PORT.match(server)
            if not match or not 0 < int(match.group(1)) < 65536:
                which = f"server {number} of {len(servers)}" if len(servers) > 1 else "server"
                raise Misread(server, f"{which} is not `host:port`, such as `localhost:9092`")
        if not servers:
            raise ValueError("names no server; write `host:port`, such as `localhost:9092`")
        return ",".join(servers)

    @field_validator("properties", mode="before")
    @classmethod
    def _flat(cls, value: object) -> object:
        return _flatten(value) if isinstance(value, dict) else value


def _flatten(nested: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in nested.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{name}."))
        elif isinstance(value, bool):
            flat[name] = str(value).lower()
        elif isinstance(value, int | float):
            flat[name] = str(value)
        else:
            flat[name] = value
    return flat
