"""The faults of a soak. Each returns when the broken part works again, or needs a restart."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions
from pyspark.errors import PySparkException

from tidemark.contract.errors import TidemarkError
from tidemark.contract.failpoints import BATCH_POINTS, REPLAY_POINTS
from tidemark.dead_letters.dlq_table.query import keep_dead_letters
from tidemark.dead_letters.replay import Replay
from tidemark.dead_letters.selection import Selection
from tidemark.dev.demo.configuration import STREAM, TOPIC
from tidemark.dev.producers import admin
from tidemark.operations.adopt import MarksFrom, adopt, adoptable_marks
from tidemark.operations.rewind import RewindTarget, rewind
from tidemark.platform.commit_lock import commit_lock
from tidemark.sink.ledger import read_state
from tidemark.sink.table_log import DeltaLog
from tidemark.streams.targets import targets_of
from tools.soak.site import SoakSite
from tools.soak.writer import SoakWriter, spare_configuration

_MOST_PARTITIONS = 12
_BACK = 20
"""The largest number of ledger commits that a RESTORE goes back."""
_TRIES = 30
_START_S = 180.0
"""The time for a start of the writer and its first batch on a busy machine."""


@dataclass(frozen=True)
class SoakFault:
    """`may_stop`: the stream may stop and need a new start, as a fenced one does."""

    name: str
    strike: Callable[[SoakSite], None]
    may_stop: bool = False


def _kill(site: SoakSite) -> None:
    site.writer.kill()


def _kill_at_a_point(site: SoakSite) -> None:
    """The next run is killed at the point, unless no batch reaches it."""
    site.writer.start(faults=f"{site.chance.choice(BATCH_POINTS)}=kill@{site.chance.randint(1, 3)}")
    site.writer.wait(45)


def _terminate(site: SoakSite) -> None:
    code = site.writer.stop()
    if code != 0:
        raise TidemarkError(f"the writer ended with {code} after SIGTERM: {site.writer.last_words()}")


def _freeze(site: SoakSite) -> None:
    """Freezes the writer for longer than its clients wait for an answer."""
    site.writer.freeze(site.chance.uniform(15, 45))


def _kill_broker(site: SoakSite) -> None:
    site.broker.kill()
    time.sleep(site.chance.uniform(1, 8))
    site.broker.start()


def _pause_broker(site: SoakSite) -> None:
    site.broker.pause()
    time.sleep(site.chance.uniform(2, 8))
    site.broker.resume()


def _lose_the_disk_of_dead_letters(site: SoakSite) -> None:
    """No segment of the DLQ topic can be rolled, so the broker gives up the disk; then it starts again on the old
    data.
    """
    folders = sorted(site.broker.folder.glob(f"disk-*/{TOPIC}-dlq-*"))
    if not folders:
        return
    _roll_dead_letters(site, "100")
    folder = site.chance.choice(folders)
    away = folder.with_name(f"away-from-{folder.name}")
    folder.rename(away)
    folder.write_text("no folder")
    time.sleep(site.chance.uniform(3, 12))
    site.broker.kill()
    folder.unlink()
    away.rename(folder)
    site.broker.start()
    _roll_dead_letters(site, "3600000")


def _roll_dead_letters(site: SoakSite, milliseconds: str) -> None:
    wanted = ConfigEntry("segment.ms", milliseconds, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, f"{TOPIC}-dlq", incremental_configs=[wanted])
    client = admin(site.broker.bootstrap)
    client.incremental_alter_configs([resource])[resource].result(30)


def _add_partition(site: SoakSite) -> None:
    client = admin(site.broker.bootstrap)
    count = len(client.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions)
    if count < _MOST_PARTITIONS:
        client.create_partitions([NewPartitions(TOPIC, count + 1)])[TOPIC].result(30)


def _burst(site: SoakSite) -> None:
    site.load.burst(5_000, bad_share=0.4)


def _checkpoints(site: SoakSite) -> Path:
    return site.files.folder / "checkpoints"


def _lose_checkpoint(site: SoakSite) -> None:
    site.writer.kill()
    shutil.rmtree(_checkpoints(site), ignore_errors=True)


def _damage_checkpoint(site: SoakSite) -> None:
    """Deletes or empties its newest commit or newest offsets, with or without their checksum."""
    site.writer.kill()
    kind = site.chance.choice(("commits", "offsets"))
    delete, checksum_too = site.chance.random() < 0.5, site.chance.random() < 0.5
    found = [f for f in _checkpoints(site).rglob(f"{kind}/*") if f.name.isdigit()]
    if not found:
        return
    newest = max(found, key=lambda f: f.stat().st_mtime_ns)
    if checksum_too:
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    newest.unlink() if delete else newest.write_text("")


def _older_checkpoint(site: SoakSite) -> None:
    site.writer.kill()
    kept = site.files.folder / "checkpoints-kept"
    shutil.copytree(_checkpoints(site), kept)
    site.writer.start()
    site.writer.wait(site.chance.uniform(20, 30))
    site.writer.kill()
    shutil.rmtree(_checkpoints(site))
    kept.rename(_checkpoints(site))


def _table_away(site: SoakSite) -> None:
    """For longer than the retries: batches become dead letters, which the next run lands by a replay."""
    site.writer.start(faults="before-append=down")
    site.writer.wait(site.chance.uniform(20, 35))
    site.writer.kill()


def _outage_with_restarts(site: SoakSite) -> None:
    """The table is unavailable, comes back, and the writer is killed: in the outage, before its jump is recorded,
    before the replay, during it, or after it. The next runs land the dead letters of the outage.
    """
    away = site.files.folder / "table-is-away"
    away.touch()
    try:
        for _ in range(site.chance.randint(1, 2)):
            site.writer.start(faults=f"before-append=down@{away}")
            site.writer.wait_for("batch dead-lettered", _START_S)
            site.writer.wait(site.chance.uniform(0, 10))
    finally:
        away.unlink()
    site.writer.wait_for(site.chance.choice(("batch dead-lettered", "dead letters replayed")), _START_S)
    if site.chance.random() < 0.5:
        site.writer.start(faults=f"{site.chance.choice(REPLAY_POINTS)}=kill")
        site.writer.wait_for("batch landed", _START_S)
        site.writer.wait(20)
    site.writer.kill()


def _replay(site: SoakSite) -> None:
    """A replay by another process while the writer runs: bad records do not land, those of an outage once."""
    (target,) = targets_of(site.spark, site.settings, STREAM, run=uuid.uuid4().hex)
    for attempt in range(1, _TRIES + 1):
        try:
            keep_dead_letters(site.spark, site.settings, target)
            how = Replay(site.spark, site.admin, target, by="another program", most_failures=99)
            how.of(Selection(limit=5_000))
            return
        except (TidemarkError, PySparkException):
            if attempt == _TRIES:
                raise


def _sql(statement: str, site: SoakSite) -> None:
    """Runs SQL as another program does. On a local folder Delta's commit is not atomic, so it takes the lock."""
    with commit_lock(site.table):
        site.spark.sql(statement.format(table=site.table.sql)).collect()


def _restore(site: SoakSite) -> None:
    log = DeltaLog(site.spark, site.table)(1_000)
    versions = sorted(entry.version for entry in log.entries if entry.ledger_commit is not None)
    _sql(f"RESTORE {{table}} TO VERSION AS OF {site.chance.choice(versions[-_BACK:])}", site)


def _restore_during_rejects(site: SoakSite) -> None:
    """RESTORE to before a batch with many bad records; the writer is killed before it publishes them again."""
    site.load.burst(2_000, bad_share=0.5)
    site.writer.wait_for("batch landed", _START_S)
    site.writer.wait(site.chance.uniform(0, 10))
    site.writer.kill()
    _restore(site)
    site.writer.start(faults=f"{site.chance.choice(('after-append', 'before-publish', 'publish'))}=kill")
    site.writer.wait(_START_S)
    site.writer.kill()


def _adopt(site: SoakSite) -> None:
    """Adopts the table after the writer was killed: with its own marks, those of the rows, or from the start."""
    site.writer.kill()
    (target,) = targets_of(site.spark, site.settings, STREAM, run=uuid.uuid4().hex)
    source = site.chance.choice((MarksFrom.KEPT, MarksFrom.ROWS, MarksFrom.EARLIEST))
    adopt(site.spark, site.admin, target, adoptable_marks(site.spark, site.admin, target, source))


def _rewind(site: SoakSite) -> None:
    """Rewinds and so fences the running writer. If that commits first, the marks are read again."""
    (target,) = targets_of(site.spark, site.settings, STREAM, run=uuid.uuid4().hex)
    for attempt in range(1, _TRIES + 1):
        marks = read_state(DeltaLog(site.spark, site.table), accept_emptied=True).marks
        chosen = site.chance.sample(sorted(marks), k=site.chance.randint(1, len(marks)))
        offsets = {p: site.chance.randint(marks[p] * 3 // 4, marks[p]) for p in chosen}
        try:
            rewind(site.spark, site.admin, target, RewindTarget(offsets=offsets))
            return
        except (TidemarkError, PySparkException):
            if attempt == _TRIES:
                raise


def _second_writer(site: SoakSite) -> None:
    """A second writer on the same checkpoint, or with a separate one, until one of the two has stopped."""
    separate = site.chance.random() < 0.5
    configuration = spare_configuration(site.files, name="elsewhere") if separate else None
    other = SoakWriter(site.files, configuration=configuration, name=f"other-{uuid.uuid4().hex[:6]}")
    other.start()
    try:
        deadline = time.monotonic() + 60
        while other.alive and site.writer.alive and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        other.kill()


FAULTS = (
    SoakFault("writer killed", _kill),
    SoakFault("writer killed at a named point", _kill_at_a_point),
    SoakFault("writer stopped by SIGTERM", _terminate),
    SoakFault("writer frozen", _freeze),
    SoakFault("a second writer", _second_writer, may_stop=True),
    SoakFault("broker killed and started again", _kill_broker),
    SoakFault("broker paused", _pause_broker),
    SoakFault("DLQ topic's disk failed", _lose_the_disk_of_dead_letters),
    SoakFault("partition added", _add_partition),
    SoakFault("a burst of bad records", _burst),
    SoakFault("checkpoint lost", _lose_checkpoint),
    SoakFault("checkpoint damaged", _damage_checkpoint),
    SoakFault("checkpoint replaced by an older copy", _older_checkpoint),
    SoakFault("table away", _table_away),
    SoakFault("another one's OPTIMIZE", partial(_sql, "OPTIMIZE {table}")),
    SoakFault("another one's VACUUM", partial(_sql, "VACUUM {table}")),
    SoakFault(
        "another one's DELETE of nothing", partial(_sql, "DELETE FROM {table} WHERE user_id = 'nobody'")
    ),
    SoakFault("an outage with restarts", _outage_with_restarts),
    SoakFault("RESTORE", _restore),
    SoakFault("RESTORE during rejects", _restore_during_rejects),
    SoakFault("another one's replay", _replay),
    SoakFault("adopt", _adopt),
    SoakFault("rewind", _rewind, may_stop=True),
)
