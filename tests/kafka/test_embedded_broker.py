"""The embedded broker: a real Kafka that comes up, comes back and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.detached_broker import detached_status, start_detached, stop_detached
from tidemark.dev.kafka_server import BrokerFailed
from tidemark.dev.producers import ProduceFailed, SampleRecord, create_topic, delete_topic, produce


def read_all(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[object, ...]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
    consumer.assign([TopicPartition(topic, partition, 0)])
    rows: list[tuple[object, ...]] = []
    while len(rows) < end:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        rows.append((message.key(), message.value(), message.headers(), message.timestamp()[1]))
    consumer.close()
    return rows


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        if stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return False
        os.kill(pid, 0)
    except (OSError, IndexError):
        return False
    return True


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_records_keep_everything_they_were_written_with(
    broker: EmbeddedBroker, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    records = [
        SampleRecord(
            b"one", key=b"k", headers=[("h", b"1"), ("h", None)], partition=1, timestamp_ms=1_700_000_000_123
        ),
        SampleRecord(None, key=b"k", partition=1, timestamp_ms=5),
        SampleRecord(b"", partition=0, timestamp_ms=6),
    ]
    assert produce(broker.bootstrap, name, records) == [(name, 1, 0), (name, 1, 1), (name, 0, 0)]
    assert read_all(broker.bootstrap, name, 1) == [
        (b"k", b"one", [("h", b"1"), ("h", None)], 1_700_000_000_123),
        (b"k", None, None, 5),
    ]
    assert read_all(broker.bootstrap, name, 0) == [(None, b"", None, 6)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_compressed_batch_is_taken_by_the_broker(
    codec: str, broker: EmbeddedBroker, topic: Callable[..., str]
) -> None:
    name = topic()
    produce(broker.bootstrap, name, [b"x" * 5000] * 3, config={"compression.type": codec})
    assert [value for _, value, *_ in read_all(broker.bootstrap, name)] == [b"x" * 5000] * 3


def test_a_topic_can_be_created_again_with_other_settings_when_it_was_deleted(broker: EmbeddedBroker) -> None:
    create_topic(broker.bootstrap, "again", 1)
    produce(broker.bootstrap, "again", [b"old"])
    delete_topic(broker.bootstrap, "again")
    create_topic(broker.bootstrap, "again", 2, max_message_bytes="2000")
    assert produce(broker.bootstrap, "again", [SampleRecord(b"new", partition=0)]) == [("again", 0, 0)]
    with pytest.raises(ProduceFailed, match="1 of 1 records for again"):
        produce(broker.bootstrap, "again", [b"x" * 3000])
    delete_topic(broker.bootstrap, "again")


def test_an_unknown_topic_is_not_created_when_a_client_writes_to_it(broker: EmbeddedBroker) -> None:
    with pytest.raises(ProduceFailed, match="not acknowledged"):
        produce(
            broker.bootstrap,
            "nobody-made-me",
            [b"x"],
            config={"message.timeout.ms": 2000, "topic.metadata.propagation.max.ms": 500},
        )


def test_records_and_address_stay_when_the_broker_is_killed_paused_and_restarted(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        before = broker.bootstrap
        create_topic(before, "kept")
        produce(before, "kept", [b"1"])

        broker.kill()
        assert not broker.running
        broker.start()
        assert broker.bootstrap == before
        produce(before, "kept", [b"2"])

        broker.pause()
        with pytest.raises(ProduceFailed):
            produce(before, "kept", [b"lost"], config={"message.timeout.ms": 1000}, timeout=3)
        broker.resume()

        broker.restart()
        produce(before, "kept", [b"3"])
        values = [value for _, value, *_ in read_all(before, "kept")]
        # The broker may have taken "lost" off its socket once it went on: its sender never learned.
        assert [v for v in values if v != b"lost"] == [b"1", b"2", b"3"]
    assert not broker.running
    assert (tmp_path / "kafka" / "data").exists()


def test_a_broker_takes_listeners_and_properties_of_the_test(tmp_path: Path) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";'
    with EmbeddedBroker(
        tmp_path / "kafka",
        listeners={"SASL": "SASL_PLAINTEXT"},
        properties={
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": jaas,
            "message.max.bytes": "1500",
        },
    ) as broker:
        create_topic(broker.bootstrap, "secured")
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}
        right = {**login, "sasl.password": "secret"}
        wrong = {**login, "sasl.password": "guess", "message.timeout.ms": 1500}
        assert len(produce(broker.address("SASL"), "secured", [b"x"], config=right)) == 1
        with pytest.raises(ProduceFailed):
            produce(broker.address("SASL"), "secured", [b"x"], config=wrong, timeout=5)
        with pytest.raises(ProduceFailed):
            produce(broker.bootstrap, "secured", [b"x" * 2000])


def test_the_end_of_the_log_is_shown_when_the_broker_cannot_start(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "kafka", properties={"num.io.threads": "none"})
    with pytest.raises(BrokerFailed, match=r"num\.io\.threads"):
        broker.start()
    assert not broker.running


def test_no_broker_is_left_behind_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        from tidemark.dev.broker import EmbeddedBroker
        import time
        broker = EmbeddedBroker().start()
        print(broker.pid, broker.folder, flush=True)
        time.sleep(600)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    assert alive(int(pid))
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    wait_for(lambda: not alive(int(pid)))
    wait_for(lambda: not Path(folder).exists())


def test_a_detached_broker_lives_on_until_it_is_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    assert detached_status(folder) is None
    try:
        started = start_detached(folder, port=0)
        assert start_detached(folder) == started
        create_topic(started.bootstrap, "kept")
        produce(started.bootstrap, "kept", [b"1"])
        assert stop_detached(folder)
        assert detached_status(folder) is None
        assert not stop_detached(folder)

        again = start_detached(folder, port=started.port)
        assert detached_status(folder) == again
        assert [value for _, value, *_ in read_all(again.bootstrap, "kept")] == [b"1"]
        os.kill(again.pid, signal.SIGKILL)
        wait_for(lambda: detached_status(folder) is None)
    finally:
        stop_detached(folder, clean=True)
    assert not folder.exists()


def test_a_taken_port_is_named_when_a_detached_broker_is_asked_for_it(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    taken = int(broker.bootstrap.rsplit(":", 1)[1])
    with pytest.raises(BrokerFailed, match=f"port {taken} is taken"):
        start_detached(tmp_path / "broker", port=taken)
