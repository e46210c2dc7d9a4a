"""One configuration for every Kafka client: Spark's (Java) and the admin client's (librdkafka)."""

from __future__ import annotations

from tidemark.config.kafka import KafkaSettings
from tidemark.platform.kafka_login import login_module

REQUEST_TIMEOUT_MS = 30_000

_JAVA_ONLY = ("max.poll.records", "default.api.timeout.ms", "key.serializer", "value.serializer")


def admin_options(kafka: KafkaSettings) -> dict[str, str | int | bool]:
    """Options of confluent-kafka's AdminClient. Holds secrets: never log it."""
    options: dict[str, str | int | bool] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": kafka.security.protocol,
        "socket.timeout.ms": REQUEST_TIMEOUT_MS,
        "log_level": 0,
    }
    if kafka.consumer.client_id:
        options["client.id"] = kafka.consumer.client_id
    sasl, tls = kafka.security.sasl, kafka.security.tls
    if kafka.security.uses_sasl:
        options["sasl.mechanism"] = sasl.mechanism
        options["sasl.username"] = sasl.username or ""
        options["sasl.password"] = sasl.password.get_secret_value() if sasl.password else ""
    if kafka.security.uses_tls:
        for name, value in (
            ("ssl.ca.location", tls.ca_file),
            ("ssl.certificate.location", tls.certificate_file),
            ("ssl.key.location", tls.key_file),
            ("ssl.key.password", tls.key_password.get_secret_value() if tls.key_password else None),
        ):
            if value is not None:
                options[name] = value
        if not tls.verify_hostname:
            options["ssl.endpoint.identification.algorithm"] = "none"
    options.update({k: v for k, v in kafka.properties.items() if k not in _JAVA_ONLY})
    return options


def spark_options(kafka: KafkaSettings) -> dict[str, str]:
    """Options of Spark's Kafka source and sink. Holds secrets: never log it."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    security = kafka.security
    if security.service_credential:
        options["databricks.serviceCredential"] = security.service_credential
        return options
    if security.protocol != "PLAINTEXT":
        options["kafka.security.protocol"] = security.protocol
    if security.uses_sasl:
        password = security.sasl.password.get_secret_value() if security.sasl.password else ""
        options["kafka.sasl.mechanism"] = security.sasl.mechanism
        options["kafka.sasl.jaas.config"] = (
            f"{login_module(security.sasl.mechanism)} required"
            f" username={_jaas_quoted(security.sasl.username or '')} password={_jaas_quoted(password)};"
        )
    if security.uses_tls:
        tls = security.tls
        if tls.ca_file:
            options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": tls.ca_file}
        if tls.certificate_file and tls.key_file:
            options |= {
                "kafka.ssl.keystore.type": "PEM",
                "kafka.ssl.keystore.certificate.chain": _text_of(tls.certificate_file),
                "kafka.ssl.keystore.key": _text_of(tls.key_file),
            }
            if tls.key_password:
                options["kafka.ssl.key.password"] = tls.key_password.get_secret_value()
        if not tls.verify_hostname:
            options["kafka.ssl.endpoint.identification.algorithm"] = ""
    options.update({f"kafka.{name}": value for name, value in kafka.properties.items()})
    return options


def _jaas_quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
