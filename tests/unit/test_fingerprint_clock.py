"""When the memory of `fingerprint` is left behind: the clock went back, or all of it has expired."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.config.stream import Idempotency, Mode
from tidemark.contract.errors import RestartStream
from tidemark.ingest.background import Background
from tidemark.ingest.idempotency.fingerprints import check_clock, delay_ms, memory_problem
from tidemark.platform.files import LocalFiles
from tidemark.source.checkpoint import Checkpoint

DAY, HOUR = 86_400_000, 3_600_000
NOON = 1_800_000_000_000 - 1_800_000_000_000 % HOUR
OPTIONS = Idempotency(mode=Mode.FINGERPRINT)


def checkpoint(folder: Path, *batches: tuple[int, int]) -> Checkpoint:
    """One with these batches planned: milliseconds of clock and watermark."""
    (folder / "offsets").mkdir()
    for number, (planned, watermark) in enumerate(batches):
        clock = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": planned, "conf": {}})
        (folder / f"offsets/{number}").write_text(f'v1\n{clock}\n{{"t":{{"0":{number}}}}}')
    return Checkpoint(LocalFiles(), str(folder), "t")


@pytest.mark.parametrize(
    ("batches", "now", "problem"),
    [
        ([], NOON, None),
        ([(NOON, 0)], NOON, None),
        ([(NOON, 0)], NOON + DAY, None),
        ([(NOON, 0)], NOON + DAY + 1, "all that it remembers has expired"),
        ([(NOON - 2 * DAY, 0), (NOON, NOON - DAY)], NOON + 1, None),
        ([(NOON, NOON - 1)], NOON, None),
        ([(NOON, NOON)], NOON, "the clock went back"),
        ([(NOON + HOUR - 1, NOON)], NOON + HOUR, "the clock went back"),
        ([(NOON, NOON + DAY)], NOON, "the clock went back"),
    ],
)
def test_a_memory_is_left_behind_when_it_can_only_do_harm(
    tmp_path: Path, batches: list[tuple[int, int]], now: int, problem: str | None
) -> None:
    assert memory_problem(checkpoint(tmp_path, *batches), OPTIONS, now_ms=now) == problem


def test_a_batch_is_not_run_when_its_records_would_all_be_late(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, (NOON, 0), (NOON - DAY, NOON - HOUR))
    check_clock(found, 0, OPTIONS)
    with pytest.raises(RestartStream, match="clock went back"):
        check_clock(found, 1, OPTIONS)


@pytest.mark.parametrize("damage", ["", "v1", "v1\nnot json", 'v1\n{"batchWatermarkMs": null}'])
def test_no_problem_is_seen_when_the_clock_cannot_be_read(tmp_path: Path, damage: str) -> None:
    found = checkpoint(tmp_path, (NOON, NOON))
    (tmp_path / "offsets/0").write_text(damage)
    assert found.clock() is None
    assert memory_problem(found, OPTIONS, now_ms=NOON) is None


def test_an_entry_is_kept_for_the_retention_whatever_the_clean_up_cuts_off() -> None:
    for retention, interval in ((86_400, 3_600), (60, 3_600), (1, 0.001), (0.5, 0.5), (3, 2)):
        options = Idempotency(retention=retention, cleanup_interval=interval)
        step = max(1, round(interval * 1000))
        for arrived in (NOON, NOON + 1, NOON + step - 1):
            # Spark forgets what expires at or below the watermark, which lies one delay behind the newest.
            expires = arrived - arrived % step + delay_ms(options)
            newest = arrived + round(retention * 1000) - 1
            assert newest - newest % step - delay_ms(options) < expires


@pytest.mark.parametrize(("busy", "restarts"), [(False, True), (True, False)])
def test_an_idle_query_starts_again_when_its_memory_has_expired(
    tmp_path: Path, *, busy: bool, restarts: bool
) -> None:
    options = OPTIONS.model_copy(update={"cleanup_interval": 1e-9})
    lock = threading.Lock()
    if busy:
        lock.acquire()
    plan = SimpleNamespace(checkpoint=checkpoint(tmp_path, (NOON, 0)))
    target: Any = SimpleNamespace(stream=SimpleNamespace(idempotency=options), remembers=True)
    ledger: Any = SimpleNamespace(plan=plan, busy=lock)
    unused: Any = None
    later = datetime.fromtimestamp((NOON + 2 * DAY) / 1000, UTC)
    background = Background(
        unused, target, ledger, lambda: later, replay_outage=unused, keep_dead_letters=unused
    )
    if restarts:
        with pytest.raises(RestartStream, match="has expired"):
            background._clean_up()
    else:
        background._clean_up()
