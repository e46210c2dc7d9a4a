"""A topic as the broker describes it: its id, its partitions and their offsets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec as _OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tidemark.config.kafka import KafkaSettings
from tidemark.contract.errors import NonRetriableError, RetriableError
from tidemark.contract.marks import Marks
from tidemark.source.clients import admin_options

TIMEOUT_S = 10.0
CLEANUP_POLICY = "cleanup.policy"
# Its methods carry no types.
OffsetSpec: Any = _OffsetSpec
_LOOKS_FOR_NEW_TOPIC = 100
_ONE_AT_A_TIME = threading.Lock()
_ABSENT = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
REFUSED = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)
Key = tuple[tuple[str, str | int | bool], ...]
_clients: dict[Key, AdminClient] = {}


@dataclass(frozen=True)
class Topic:
    """`id` is Kafka's own topic ID: another one under the same name is another source."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class KafkaAdmin:
    """Asks the broker about topics. Picklable, as the client itself belongs to the process.

    Raises RetriableError where the broker does not answer within `timeout` seconds, and
    NonRetriableError where it refuses, with what was refused.
    """

    kafka: KafkaSettings
    timeout: float = TIMEOUT_S

    def client(self) -> AdminClient:
        key = self._key
        # Of two clients made at once, one would be dropped with its pending requests.
        with _ONE_AT_A_TIME:
            if key not in _clients:
                _clients[key] = AdminClient(dict(key))
            return _clients[key]

    @property
    def _key(self) -> Key:
        return tuple(sorted(admin_options(self.kafka).items()))

    def _answers(self, ask: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> dict[Any, Any]:
        """The broker's answers by request. Raises KafkaException or TimeoutError.

        A client without an answer is not used again: one that waits for a broker that left the cluster waits,
        at full load of a core, until it refreshes the cluster's metadata five minutes later.
        """
        # Referenced until it has answered: a dropped client drops its requests.
        client = self.client()
        try:
            asked = ask(client)
            return {key: future.result(self.timeout + 5) for key, future in asked.items()}
        except (KafkaException, TimeoutError) as error:
            if isinstance(error, TimeoutError) or _is_local(error.args[0]):
                with _ONE_AT_A_TIME:
                    if _clients.get(self._key) is client:
                        del _clients[self._key]
            raise

    def find(self, name: str) -> Topic | None:
        asked = TopicCollection([name])
        try:
            found = self._answers(lambda c: c.describe_topics(asked, request_timeout=self.timeout))[name]
        except KafkaException as error:
            if error.args[0].code() in _ABSENT:
                return None
            raise self.failure(error, f"topic {name} (DESCRIBE)") from error
        except TimeoutError as error:
            raise self.failure(error, f"topic {name}") from error
        return Topic(name, str(found.topic_id), tuple(sorted(p.id for p in found.partitions)))

    def describe(self, name: str) -> Topic:
        found = self.find(name)
        if found is None:
            raise NonRetriableError(
                f"there is no topic {name} on {self.kafka.bootstrap_servers}",
                "create it, or correct kafka-topic in the configuration",
            )
        return found

    def earliest(self, topic: Topic) -> Marks:
        return self._offsets(topic, OffsetSpec.earliest())

    def ends(self, topic: Topic) -> Marks:
        """End offsets, exclusive; under `read_committed` those of the last stable offset."""
        return self._offsets(topic, OffsetSpec.latest())

    def at_time(self, topic: Topic, timestamp_ms: int) -> Marks:
        """The first offsets with records at or after that time; the ends where there are none."""
        found = self._offsets(topic, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self.ends(topic)
        return Marks({p: o if o >= 0 else ends.at(p) for p, o in found.items()})

    def require(self, name: str, operation: str) -> None:
        """Raises NonRetriableError, with the ACL, where this user may not do `operation` on the topic.

        Checks a right that only a later step needs before any record is read.
        """
        asked = TopicCollection([name])
        try:
            found = self._answers(
                lambda c: c.describe_topics(
                    asked, include_authorized_operations=True, request_timeout=self.timeout
                )
            )[name]
        except (KafkaException, TimeoutError) as error:
            raise self.failure(error, f"topic {name}") from error
        allowed = found.authorized_operations
        if allowed is not None and operation not in {o.name for o in allowed}:
            raise NonRetriableError(
                f"this Kafka user lacks {operation} on topic {name}", "grant it (docs/security.md)"
            )

    def _offsets(self, topic: Topic, spec: Any) -> Marks:
        asked = {TopicPartition(topic.name, p): spec for p in topic.partitions}
        try:
            found = self._answers(lambda c: c.list_offsets(asked, request_timeout=self.timeout))
            return Marks({tp.partition: at.offset for tp, at in found.items()})
        except (KafkaException, TimeoutError) as error:
            raise self.failure(error, f"offsets of topic {topic.name}") from error

    def create(
        self, name: str, *, partitions: int, replication: int = -1, configs: Mapping[str, str]
    ) -> Topic:
        """Creates the topic and returns it once the broker shows it. An existing topic is returned as it is.

        `replication` -1 is the broker's own default.
        """
        new = NewTopic(name, partitions, replication, config=dict(configs))
        try:
            self._answers(lambda c: c.create_topics([new], request_timeout=self.timeout))
        except (KafkaException, TimeoutError) as error:
            if not isinstance(error, KafkaException) or (
                error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS
            ):
                raise self.failure(error, f"creating topic {name} (CREATE)") from error
        for _ in range(_LOOKS_FOR_NEW_TOPIC):
            found = self.find(name)
            if found is not None:
                return found
            time.sleep(0.1)
        raise RetriableError(f"topic {name} was created, but does not show yet")

    def config(self, name: str, keys: Iterable[str]) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        try:
            found = self._answers(lambda c: c.describe_configs([resource], request_timeout=self.timeout))[
                resource
            ]
        except (KafkaException, TimeoutError) as error:
            raise self.failure(error, f"configuration of topic {name} (DESCRIBE_CONFIGS)") from error
        return {key: found[key].value for key in keys if key in found}

    def require_uncompacted(self, name: str) -> None:
        policy = self.config(name, [CLEANUP_POLICY]).get(CLEANUP_POLICY, "delete")
        require_uncompacted(name, policy, self.kafka.bootstrap_servers)

    def failure(self, error: BaseException, what: str) -> RetriableError | NonRetriableError:
        servers = self.kafka.bootstrap_servers
        if isinstance(error, KafkaException):
            detail: KafkaError = error.args[0]
            if detail.code() in REFUSED:
                return NonRetriableError(
                    f"Kafka refused {what}: {detail.str()}",
                    "grant it to this user (docs/security.md), or correct kafka.security",
                )
            why = f": {detail.str()}"
        else:
            why = " in time"
        return RetriableError(
            f"Kafka at {servers} did not answer about {what}{why}",
            "is the address right, and the broker running? For a local one: tidemark broker start",
        )


def require_uncompacted(dlq_topic: str, policy: str, servers: str) -> None:
    """Raises NonRetriableError for a compacted topic, which would lose dead letters: it keeps only the newest of
    equal keys, and accepts none without a key.
    """
    if "compact" in policy:
        raise NonRetriableError(
            f"the dead letter topic {dlq_topic} has {CLEANUP_POLICY}={policy}: of dead letters with equal"
            " keys it keeps the newest alone, and it takes none without a key",
            f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics"
            f" --entity-name {dlq_topic} --add-config {CLEANUP_POLICY}=delete",
        )


def _is_local(error: KafkaError) -> bool:
    """Whether the client itself gave up: the codes of a broker's answers are not negative."""
    return error.code() < 0 and error.code() not in _ABSENT


def settled_ends(
    admin: KafkaAdmin,
    topic: Topic,
    at_least: Marks,
    *,
    settle_within: float = 5.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Marks:
    """End offsets, read again while they are below `at_least`: a change of leader can lower an end for a moment,
    which does not mean a new topic.
    """
    ends = admin.ends(topic)
    waited = 0.0
    while not ends >= at_least and waited < settle_within:
        sleep(0.5)
        waited += 0.5
        ends = admin.ends(topic)
    return ends
