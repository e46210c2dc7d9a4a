"""`tidemark broker`: a broker that stays, and what is produced into it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tidemark.cli.app import main
from tidemark.dev.detached_broker import detached_status, stop_detached
from tidemark.dev.producers import create_topic
from tidemark.dev.samples import sample_events

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a broker that was started by the command."""
    place = tmp_path_factory.mktemp("local") / "broker"
    assert main(["broker", "start", "--port", "0", "--folder", str(place)]) == 0
    yield place
    stop_detached(place, clean=True)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["broker", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def read_all(bootstrap: str, topic: str, partitions: int) -> list[tuple[int, Any, Any, Any]]:
    """partition, key, value and time of every record, in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    places = [TopicPartition(topic, p) for p in range(partitions)]
    expected = sum(consumer.get_watermark_offsets(place, timeout=20)[1] for place in places)
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    found = []
    while len(found) < expected:
        messages = consumer.consume(expected - len(found), 20)
        assert messages
        found += [(m.partition() or 0, m.key(), m.value(), m.timestamp()[1]) for m in messages]
    consumer.close()
    return found


def bootstrap_of(folder: Path) -> str:
    broker = detached_status(folder)
    assert broker is not None
    return broker.bootstrap


def test_start_says_where_it_runs_and_starting_again_changes_nothing(folder: Path, run: Run) -> None:
    code, out, _ = run("start", "--port", "0", "--folder", str(folder), "--json")
    assert code == 0
    assert json.loads(out)["bootstrap"] == bootstrap_of(folder)


def test_a_taken_port_is_refused_when_another_program_has_it(folder: Path, run: Run, tmp_path: Path) -> None:
    port = bootstrap_of(folder).rpartition(":")[2]
    code, _, err = run("start", "--port", port, "--folder", str(tmp_path / "other"))
    assert (code, f"port {port} is taken" in err, "--port" in err) == (1, True, True)


def test_lines_arrive_as_they_are_in_a_new_topic_when_a_file_is_sent(
    folder: Path, run: Run, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b'{"id": 1}\n\n\xff\x00 odd\nlast one')
    code, out, _ = run(
        "produce", "lines", "-f", str(lines), "--partitions", "1", "--folder", str(folder), "--json"
    )
    assert code == 0
    assert json.loads(out) == {"topic": "lines", "created": True, "records": 4, "partitions": {"0": 4}}
    values = [value for _, _, value, _ in read_all(bootstrap_of(folder), "lines", 1)]
    assert values == [b'{"id": 1}', b"", b"\xff\x00 odd", b"last one"]


def test_keys_are_split_off_when_a_separator_is_given(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"k1|a|b\nno key\n")))
    code, _, _ = run(
        "produce", "keyed", "-f", "-", "-K", "|", "--partitions", "1", "--folder", str(folder), "--json"
    )
    assert code == 0
    found = [(key, value) for _, key, value, _ in read_all(bootstrap_of(folder), "keyed", 1)]
    assert found == [(b"k1", b"a|b"), (None, b"no key")]


def test_sample_events_are_sent_when_no_file_is_named_and_an_existing_topic_is_kept(
    folder: Path, run: Run
) -> None:
    create_topic(bootstrap_of(folder), "samples", 2)
    code, out, _ = run(
        "produce", "samples", "--records", "300", "--bad-share", "0.1", "--folder", str(folder), "--json"
    )
    shown = json.loads(out)
    assert (code, shown["created"], shown["records"], set(shown["partitions"])) == (0, False, 300, {"0", "1"})
    found = read_all(bootstrap_of(folder), "samples", 2)
    expected = [e.record.value for e in sample_events(300, bad_share=0.1)]
    assert sorted(value or b"" for _, _, value, _ in found) == sorted(value or b"" for value in expected)
    # Of today, whatever the event says: the topic's retention must not take them.
    assert min(time for *_, time in found) > 1_750_000_000_000


def test_status_shows_topics_and_their_records(folder: Path, run: Run) -> None:
    assert run("produce", "counted", "-n", "7", "--partitions", "3", "--folder", str(folder))[0] == 0
    code, out, _ = run("status", "--folder", str(folder), "--json")
    shown = json.loads(out)
    assert (code, shown["running"]) == (0, True)
    assert shown["topics"]["counted"] == {"partitions": 3, "records": 7}
    code, out, _ = run("status", "--folder", str(folder))
    assert (code, "counted" in out) == (0, True)


def test_the_broker_lies_in_the_state_folder_when_a_configuration_is_named(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "tidemark.yml"
    config.write_text(
        "kafka: {bootstrap-servers: production:9092}\n"
        "connector: {topics: {e: {kafka-topic: e, schema: {ddl: id INT},"
        " destination: {bucket: ./lake, path: e}}}}\n"
        "state-dir: state\n"
    )
    code, out, _ = run("status", "--config", str(config))
    assert (code, str(tmp_path / "state" / "broker") in out) == (1, True)
    # Samples never reach the configuration's own Kafka.
    code, _, err = run("produce", "e", "--config", str(config))
    assert (code, "no broker runs in" in err, "production" in err) == (2, True, False)


@pytest.mark.parametrize(
    ("arguments", "problem", "code"),
    [
        (["produce", "x", "-f", "a", "-n", "5"], "--file and --records", 2),
        (["produce", "x", "-n", "5", "-K", "|"], "--key-separator", 2),
        (["produce", "x", "-f", "/no/such/file"], "cannot read /no/such/file", 2),
        (["produce", "x", "--bootstrap", "127.0.0.1:1"], "no Kafka answers on 127.0.0.1:1", 1),
    ],
)
def test_wrong_use_gets_one_clear_message(run: Run, arguments: list[str], problem: str, code: int) -> None:
    found, _, err = run(*arguments)
    assert (found, problem in err, "Traceback" in err) == (code, True, False)


def test_stop_ends_it_once_and_clean_removes_its_data(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "broker"
    assert run("start", "--port", "0", "--folder", str(place))[0] == 0
    code, out, _ = run("stop", "--clean", "--folder", str(place), "--json")
    assert (code, json.loads(out)["stopped"], place.exists()) == (0, True, False)
    code, out, _ = run("stop", "--folder", str(place))
    assert (code, "no broker was running" in out) == (0, True)
