"""Listeners in threads of their own, on the run's one broker."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tidemark.config.listener import Listener
from tidemark.contract.errors import RetriableError
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, create_topic, produce
from tidemark.listener import AtLeastOnceListener, Batch, Failure, InProcessExecutor, Scope


def judge(error: BaseException) -> Failure:
    scope = Scope.DEPENDENCY if isinstance(error, RetriableError) else Scope.RECORD
    return Failure(exception_class=type(error).__name__, message=str(error), scope=scope)


class Running:
    """A listener at work. `seen` has every record of every execution, in order."""

    def __init__(self, listener: AtLeastOnceListener) -> None:
        self.listener = listener
        self.raised: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.listener.run()
        except BaseException as error:
            self.raised = error

    def ended(self, timeout: float = 20) -> bool:
        self.thread.join(timeout)
        return not self.thread.is_alive()

    def stop(self) -> None:
        self.listener.stop()
        assert self.ended(), "the listener does not end"


class Scene:
    """One topic with its DLQ, one group, any number of listeners."""

    def __init__(
        self, bootstrap: str, partitions: int, dlq_partitions: int | None, dlq: dict[str, str]
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = f"listen-{uuid.uuid4().hex[:12]}"
        self.group = f"{self.topic}-group"
        create_topic(bootstrap, self.topic, partitions)
        create_topic(bootstrap, f"{self.topic}-dlq", dlq_partitions or partitions, **dlq)
        self.executions: list[list[tuple[int, int]]] = []
        self.running: list[Running] = []

    def produce(self, *records: SampleRecord) -> None:
        produce(self.bootstrap, self.topic, records)

    def fill(self, per_partition: Sequence[int]) -> None:
        """So many records per partition, the value of each its coordinates."""
        self.produce(
            *(
                SampleRecord(f"{p}/{o}".encode(), key=f"k{p}".encode(), partition=p)
                for p, count in enumerate(per_partition)
                for o in range(count)
            )
        )

    def listen(self, handler: Callable[[Batch], object] = lambda batch: None, **options: Any) -> Running:
        extra = {k: options.pop(k) for k in list(options) if k in EXTRA}
        settings = Listener(
            **{
                "topics": (self.topic,),
                "group_id": self.group,
                "batch_interval": 0.1,
                "session_timeout": 6,
                "max_poll_interval": 60,
                "shutdown_timeout": 5,
                "dlq_timeout": 5,
                "retry": {"base": 0.02, "cap": 0.1, "jitter": 0},
                **options,
            }
        )

        def recorded(batch: Batch) -> object:
            self.executions.append([(r.partition, r.offset) for r in batch.records])
            return handler(batch)

        connection = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        listener = AtLeastOnceListener(
            settings,
            connection,
            **{"executor": InProcessExecutor(recorded, judge=judge), **extra},
        )
        self.running.append(Running(listener))
        return self.running[-1]

    @property
    def seen(self) -> list[tuple[int, int]]:
        return [record for execution in self.executions for record in execution]

    def committed(self) -> dict[int, int]:
        """Partition to the group's next offset; a partition without a commit is left out."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, "log_level": 0})
        try:
            partitions = consumer.list_topics(self.topic, timeout=10).topics[self.topic].partitions
            found = consumer.committed([TopicPartition(self.topic, p) for p in partitions], timeout=10)
            return {p.partition: p.offset for p in found if p.offset >= 0}
        finally:
            consumer.close()

    def commit(self, **positions: int) -> None:
        """Commits for the group from outside: `commit(p0=3)`."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, "log_level": 0})
        consumer.commit(
            offsets=[TopicPartition(self.topic, int(p[1:]), o) for p, o in positions.items()],
            asynchronous=False,
        )
        consumer.close()

    def dead_letters(self, count: int, *, timeout: float = 20) -> list[Any]:
        """The first `count` messages of the DLQ topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        dlq = f"{self.topic}-dlq"
        partitions = consumer.list_topics(dlq, timeout=10).topics[dlq].partitions
        consumer.assign([TopicPartition(dlq, p, 0) for p in partitions])
        found: list[Any] = []
        deadline = time.monotonic() + timeout
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                found.append(message)
        consumer.close()
        assert len(found) == count, f"{len(found)} dead letters, not {count}"
        return found

    def dead_letter_count(self) -> int:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": uuid.uuid4().hex, "log_level": 0}
        )
        dlq = f"{self.topic}-dlq"
        try:
            partitions = consumer.list_topics(dlq, timeout=10).topics[dlq].partitions
            return sum(
                consumer.get_watermark_offsets(TopicPartition(dlq, p), timeout=10)[1] for p in partitions
            )
        finally:
            consumer.close()

    def wait(self, condition: Callable[[], Any], *, timeout: float = 30) -> Any:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for one in self.running:
                if one.raised is not None:
                    raise one.raised
            if found := condition():
                return found
            time.sleep(0.05)
        raise AssertionError(
            f"not within {timeout} s: executions {self.executions}, committed {self.committed()}"
        )

    def wait_committed(self, expected: dict[int, int], *, timeout: float = 30) -> None:
        self.wait(lambda: self.committed() == expected, timeout=timeout)

    def close(self) -> None:
        for one in self.running:
            one.listener.stop()
        for one in self.running:
            assert one.ended(), "the listener does not end"


EXTRA = frozenset(
    {
        "executor",
        "starting_offsets",
        "on_assigned",
        "on_revoked",
        "on_given_up",
        "consumer",
        "meter",
    }
)


@pytest.fixture
def scene(broker: EmbeddedBroker) -> Iterator[Callable[..., Scene]]:
    with contextlib.ExitStack() as made:

        def make(partitions: int = 1, *, dlq_partitions: int | None = None, **dlq: str) -> Scene:
            one = Scene(broker.bootstrap, partitions, dlq_partitions, dlq)
            made.callback(one.close)
            return one

        yield make
