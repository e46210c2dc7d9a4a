"""The memory of fingerprints: seen, emptied, after a crash and of another time."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.stream.test_modes import counts, keyed, newest
from tests.stream_under_test import BAD, StreamUnderTest, good
from typer.testing import CliRunner

from tidemark.cli.streams.fingerprints import app
from tidemark.contract import failpoints as fault_points
from tidemark.dev.producers import create_topic, delete_topic

Make = Callable[..., StreamUnderTest]
FINGERPRINT = {"mode": "fingerprint"}


@pytest.fixture(autouse=True)
def no_faults() -> None:
    fault_points.forget()


def damage_clock(events: StreamUnderTest, **changed: int) -> None:
    """Rewrite the clock of the newest planned batch, as if another one had been there then."""
    offsets = events.folder / "checkpoints/events" / newest(events).checkpoint / "offsets"
    file = max((f for f in offsets.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
    version, clock, *rest = file.read_text().splitlines()
    file.write_text("\n".join([version, json.dumps({**json.loads(clock), **changed}), *rest]))
    (offsets / f".{file.name}.crc").unlink(missing_ok=True)


def test_the_memory_can_be_seen_and_emptied_when_the_stream_is_stopped(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream(idempotency=FINGERPRINT)
    events.produce(good(1), good(2), good(1), BAD, None)
    events.land()
    events.produce(good(2), good(2), BAD, None)
    events.land()
    assert counts(events) == (4, 0, 1, 1, 2)
    monkeypatch.setattr("tidemark.platform.open_session.session_for", lambda settings: events.spark)
    monkeypatch.setattr("tidemark.cli.streams.fingerprints.open_settings", lambda *_, **__: events.settings())
    cli = CliRunner()

    (shown,) = json.loads(cli.invoke(app, ["show", "--json"]).stdout)
    # A content each, and an entry for each record that is never compared.
    assert shown["entries"] == 2 + 4
    assert shown["checkpoint"] == newest(events).checkpoint
    result = cli.invoke(app, ["reset", "--stream", "events", "--yes", "--json"])
    assert json.loads(result.stdout)["entries"] == 6, result.output

    events.produce(good(1))
    events.land()
    assert events.ids() == [1, 1, 2], "what was dropped before the reset is not read again"
    assert counts(events) == (1, 1, 0, 0, 0)
    assert newest(events).checkpoint != shown["checkpoint"]

    delete_topic(events.broker.bootstrap, events.topic)
    create_topic(events.broker.bootstrap, events.topic, 1)
    refused = cli.invoke(app, ["reset", "--stream", "events", "--yes"])
    assert "was created again" in str(refused.exception), "the marks are those of the former topic"


def test_the_other_copy_does_not_land_when_a_batch_runs_again_after_a_crash(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream(partitions=2, idempotency=FINGERPRINT)
    events.produce(*[keyed(i, partition=p) for i in range(20) for p in (0, 1)])
    monkeypatch.setenv(fault_points.VARIABLE, "after-append=raise")
    assert events.run().error is not None
    landed = events.landed()
    (_, partition, offset), *_ = landed
    # The same content at other coordinates: the copy that the first run happened to keep is the other one.
    events.spark.sql(
        f"DELETE FROM {events.table.sql} WHERE stream_partition = {partition} AND stream_offset = {offset}"
    )
    row = f"SELECT * EXCEPT (stream_partition, stream_offset), {1 - partition} AS stream_partition, "
    swapped = events.spark.sql(
        f"{row} CAST({offset} AS BIGINT) AS stream_offset FROM {events.table.sql} VERSION AS OF"
        f" {events.state().newest_version} WHERE stream_partition = {partition} AND stream_offset = {offset}"
    )
    swapped.write.format("delta").mode("append").save(str(events.table.path))
    monkeypatch.delenv(fault_points.VARIABLE)

    events.land()

    assert events.ids() == list(range(20))
    assert counts(events) == (40, 0, 0, 0, 40)


CLOCKS = {
    "the clock went back": {"batchWatermarkMs": 4_000_000_000_000},
    "all contents expired": {"batchTimestampMs": 1_000_000_000_000, "batchWatermarkMs": 0},
}


@pytest.mark.guarantee("bad day: clock jumps, fingerprints")
def test_nothing_new_is_dropped_when_the_memory_is_of_another_time(stream: Make) -> None:
    events = stream(idempotency=FINGERPRINT, processing={"max-batch-size": 1, "batch-size": 1})
    landed = [1, 2]
    events.produce(*map(good, landed))
    events.land()
    for number, (name, clock) in enumerate(CLOCKS.items(), start=3):
        before = newest(events).checkpoint
        damage_clock(events, **clock)
        events.produce(good(1), good(number))
        events.land()
        landed += [1, number]
        assert events.ids() == sorted(landed), name
        assert newest(events).checkpoint != before, name
