"""TLS, SCRAM and ACLs: a broker that has them, and exactly the rights that docs/security.md names."""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyspark.sql import SparkSession
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.cli.app import main
from tidemark.config.reading.load import parse_settings
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import admin, create_topic
from tidemark.source.topics import KafkaAdmin

SECURITY = Path(__file__).parents[2] / "docs/security.md"
USER, PASSWORD = "tidemark", 'p"a\\ss; word'
TOPIC = "orders"


@dataclass(frozen=True)
class Secured:
    broker: EmbeddedBroker
    ca_file: Path

    def kafka(self, *, password: str = PASSWORD, ca_file: Path | None = None) -> dict[str, Any]:
        """The `kafka` section, but for the consumer."""
        return {
            "bootstrap-servers": self.broker.address("SECURE"),
            "security": {
                "protocol": "SASL_SSL",
                "sasl": {"mechanism": "SCRAM-SHA-512", "username": USER, "password": password},
                "tls": {"ca-file": str(ca_file or self.ca_file)},
            },
        }

    def grant(self, acls: list[AclBinding]) -> None:
        """These rights for the user, and no others."""
        client = admin(self.broker.bootstrap)
        everything = AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
        for future in client.delete_acls([everything]).values():
            future.result(30)
        for future in client.create_acls(acls).values() if acls else ():
            future.result(30)


@dataclass
class SecuredStream(StreamUnderTest):
    kafka: dict[str, Any] = field(default_factory=dict)

    def document(self, **options: Any) -> dict[str, Any]:
        document = dict(super().document(**options))
        document["kafka"] = {**self.kafka, "consumer": document["kafka"]["consumer"]}
        return document


def acl(kind: ResourceType, name: str, operation: str) -> AclBinding:
    return AclBinding(
        *(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*"),
        *(AclOperation[operation], AclPermissionType.ALLOW),
    )


def documented(command: str, topic: str) -> list[AclBinding]:
    """The rights of the command's row in docs/security.md; its columns are topic, DLQ and group."""
    (row,) = re.findall(rf"^\| `{command}` \|(.*)\|$", SECURITY.read_text(), re.MULTILINE)
    cells = [set(re.findall(r"`([A-Z_]+)`", cell)) for cell in row.split("|")]
    places = (
        (ResourceType.TOPIC, topic),
        (ResourceType.TOPIC, f"{topic}-dlq"),
        (ResourceType.GROUP, f"group-{topic}"),
    )
    return [acl(*place, op) for place, cell in zip(places, cells, strict=True) for op in sorted(cell)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    key_pem, chain_pem = certificate(folder)
    (folder / "broker.pem").write_text(key_pem + chain_pem)
    listener = "listener.name.secure."
    with EmbeddedBroker(
        folder / "kafka",
        listeners={"SECURE": "SASL_SSL"},
        properties={
            f"{listener}sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{listener}scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            f"{listener}ssl.keystore.type": "PEM",
            f"{listener}ssl.keystore.location": str(folder / "broker.pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # Who comes by the plain listener is the test itself, and the broker.
            "super.users": "User:ANONYMOUS",
        },
    ) as broker:
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        client = admin(broker.bootstrap)
        client.alter_user_scram_credentials([change])[USER].result(30)
        yield Secured(broker, folder / "ca.pem")


@pytest.fixture
def events(secured: Secured, spark: SparkSession, tmp_path: Path) -> Callable[[str], SecuredStream]:
    def make(topic: str) -> SecuredStream:
        create_topic(secured.broker.bootstrap, topic)
        return SecuredStream(spark, secured.broker, topic, tmp_path, kafka=secured.kafka())

    return make


def certificate(folder: Path) -> tuple[str, str]:
    """An authority in `ca.pem` and `other-ca.pem`; the first signs 127.0.0.1. Returns key and chain."""
    now = datetime.datetime.now(datetime.UTC)

    def signed(name: str, issuer: str, key: Any, by: Any, extension: x509.ExtensionType) -> str:
        found = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(extension, critical=True)
            .sign(by, hashes.SHA256())
        )
        return found.public_bytes(serialization.Encoding.PEM).decode()

    authority, other, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    is_authority = x509.BasicConstraints(ca=True, path_length=None)
    (folder / "ca.pem").write_text(signed("ca", "ca", authority, authority, is_authority))
    (folder / "other-ca.pem").write_text(signed("other", "other", other, other, is_authority))
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return private, signed("broker", "ca", key, authority, host)


def kafka_admin(section: dict[str, Any], tmp_path: Path) -> KafkaAdmin:
    text = {"kafka": section, "connector": {"topics": {TOPIC: {"schema": {"ddl": "id INT"}}}}}
    place = {"bucket": str(tmp_path), "path": "lake"}
    text["connector"]["topics"][TOPIC] |= {"kafka-topic": TOPIC, "destination": place}
    return KafkaAdmin(parse_settings(json.dumps(text), root=tmp_path).kafka, timeout=4)


def test_records_land_over_tls_and_scram_when_the_user_has_the_documented_rights(
    secured: Secured, events: Callable[[str], SecuredStream]
) -> None:
    stream = events("granted")
    stream.produce(good(0), BAD, good(2))
    secured.grant(documented("tidemark ingest", "granted"))
    stream.land()
    assert stream.ids() == [0, 2]
    plain = StreamUnderTest(stream.spark, secured.broker, "granted", stream.folder)
    assert len(plain.dead_letters()) == 1
    assert dict(plain.group().read("granted", (0,))) == {0: 3}


@pytest.mark.guarantee(
    "bad day: a Kafka right is missing",
    "fault: A Kafka right is missing, or the password is wrong → "
    "The stream stops and names the right; no secret is reported",
)
def test_the_stream_stops_and_names_the_right_when_one_is_missing(
    secured: Secured, events: Callable[[str], SecuredStream]
) -> None:
    """Each right of `tidemark ingest` is taken away in turn, so none of those documented is too many."""
    stream = events("lacking")
    create_topic(secured.broker.bootstrap, "lacking-dlq")
    stream.produce(good(0), BAD)
    every = documented("tidemark ingest", "lacking")
    unneeded = []
    for lacking in every:
        # CREATE is for a DLQ that is not there; READ and WRITE imply DESCRIBE; a group is best effort.
        if lacking.operation.name in ("CREATE", "DESCRIBE") or lacking.restype is ResourceType.GROUP:
            continue
        secured.grant([right for right in every if right != lacking])
        error = stream.run().error
        if error is None:
            unneeded.append(lacking)
            continue
        assert lacking.operation.name in str(error), (lacking, error)
        assert lacking.name in str(error)
    assert not unneeded
    assert not (stream.folder / "lake/events/_delta_log").exists() or stream.ids() == []


@pytest.mark.guarantee("bad day: least rights of each command")
def test_each_command_does_its_work_when_the_user_has_exactly_its_documented_rights(
    secured: Secured, events: Callable[[str], SecuredStream], capfd: pytest.CaptureFixture[str]
) -> None:
    """And names what it lacks, where a right to read or to write is taken away, or where there is none."""
    stream = events("commands")
    plain = StreamUnderTest(stream.spark, secured.broker, "commands", stream.folder)
    stream.produce(good(0), BAD, good(2), BAD)
    plain.land()
    config = stream.folder / "tidemark.yml"
    config.write_text(json.dumps(stream.document()))
    edited = ["--edit", "'{\"id\": 7}'", "--yes"]
    for command, options in {
        "tidemark dead-letters stream": ["--available-now"],
        "tidemark dead-letters replay": ["--letter", "commands:0:1", *edited],
        "tidemark dead-letters replay --republish": ["--letter", "commands:0:3", *edited],
        "tidemark backfill": ["--range", "0=0..3"],
        "tidemark rewind": ["--to-earliest", "--yes"],
    }.items():
        every = documented(command, "commands")
        arguments = [*command.split()[1:], "--stream", "events", "--config", str(config), *options]
        for lacking in [right for right in every if right.operation.name in ("READ", "WRITE")] or every:
            secured.grant([right for right in every if right != lacking])
            assert main(arguments) == 1, (command, lacking)
            assert lacking.name in "".join(capfd.readouterr()), (command, lacking)
        secured.grant(every)
        assert main(arguments) == 0, (command, capfd.readouterr())
    plain.land()
    assert plain.ids() == [0, 2, 7, 7]


@pytest.mark.parametrize("command", ["tidemark status", "tidemark adopt", "tidemark doctor"])
def test_offsets_can_be_asked_when_the_user_may_only_describe(
    secured: Secured, tmp_path: Path, command: str
) -> None:
    topic = f"asked-{command.split()[1]}"
    create_topic(secured.broker.bootstrap, topic)
    secured.grant(documented(command, topic))
    asking = kafka_admin(secured.kafka(), tmp_path)
    found = asking.describe(topic)
    assert dict(asking.earliest(found)) == dict(asking.ends(found)) == {0: 0}
    with pytest.raises(Exception, match=f"lacks READ on topic {topic}"):
        asking.require(topic, "READ")
    secured.grant([])
    with pytest.raises(Exception, match="DESCRIBE"):
        asking.describe(topic)


@pytest.mark.guarantee(
    "fault: A Kafka right is missing, or the password is wrong → "
    "The stream stops and names the right; no secret is reported"
)
def test_no_record_is_read_and_no_secret_shown_when_password_or_authority_is_wrong(
    secured: Secured, tmp_path: Path
) -> None:
    wrong = (
        secured.kafka(password="guess-4711"),
        secured.kafka(ca_file=secured.ca_file.with_name("other-ca.pem")),
    )
    for section in wrong:
        with pytest.raises(Exception, match="Kafka") as raised:
            kafka_admin(section, tmp_path).describe(TOPIC)
        assert "guess-4711" not in str(raised.value)
