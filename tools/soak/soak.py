"""`make soak MINUTES=20 SEED=1`: load with random faults, and an audit at the end.

A writer lands a growing topic, while faults are drawn from a list (`tools/soak/faults.py`). After each one the
stream must catch up by itself; where it may stop, it is started again. At the end every record is compared with
the table and the DLQ topic: {table ∪ DLQ} = produced minus skipped.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tidemark.contract.errors import TidemarkError
from tidemark.contract.failure_codes import FailureCode
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.demo.audit import AuditResult, dead_letters_of, judge, landed_rows
from tidemark.dev.demo.configuration import TOPIC, DemoFiles
from tools.soak.faults import FAULTS, SoakFault
from tools.soak.site import SoakSite

_CATCH_UP_S = 600.0
_LOOK_S = 0.5
_FIRST_RECORDS = 500


class NoRecovery(TidemarkError):
    condition = "TIDEMARK_SOAK"


@dataclass
class Books:
    """`recoveries`: by fault, the seconds from its end until all records produced by then are accounted for.

    `stops`: the last log lines of writers that stopped without a reason.
    """

    recoveries: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    stops: list[str] = field(default_factory=list)
    audit_result: AuditResult | None = None

    @property
    def sound(self) -> bool:
        return self.audit_result is not None and self.audit_result.sound and not self.stops


def soak(
    console: Console, folder: Path, *, minutes: float, seed: int, faults: Sequence[SoakFault] = FAULTS
) -> Books:
    """Runs faults for so many minutes, at least one. Equal seeds draw equal faults.

    Raises NoRecovery where the stream does not catch up after a fault.
    """
    books = Books()
    files = DemoFiles(folder)
    # A fault breaks a disk; the broker's metadata must be on another one.
    disks = {
        "log.dirs": ",".join(str(files.broker / f"disk-{n}") for n in (1, 2)),
        "metadata.log.dir": str(files.broker / "metadata"),
    }
    with EmbeddedBroker(files.broker, properties=disks) as broker:
        site = SoakSite.prepared(files, broker, seed)
        try:
            site.load.burst(_FIRST_RECORDS)
            site.load.start()
            site.writer.start()
            _catch_up(site, books, "start")
            deadline = time.monotonic() + minutes * 60
            while not books.recoveries or time.monotonic() < deadline:
                _one_round(console, site, books, deadline, faults)
            site.load.stop()
            _catch_up(site, books, "end")
            for stop in (site.writer.stop, site.read_the_rest):
                if stop() != 0:
                    books.stops.append(f"end: {site.writer.last_words()}")
            dead_letters = dead_letters_of(broker.bootstrap, f"{TOPIC}-dlq")
            # Dead letters of an outage land by a replay: one that did not land counts as lost.
            kept = [x for x in dead_letters if x.code != FailureCode.DEPENDENCY_UNAVAILABLE]
            books.audit_result = judge(site.load.produced, landed_rows(files.table), kept)
        finally:
            site.writer.kill()
    return books


def _one_round(
    console: Console, site: SoakSite, books: Books, deadline: float, faults: Sequence[SoakFault]
) -> None:
    fault = site.chance.choice(faults)
    left = max(0.0, deadline - time.monotonic())
    console.print(f"{left / 60:5.1f} min left: {fault.name} … ", end="")
    fault.strike(site)
    seconds = _catch_up(site, books, fault.name, fault)
    books.recoveries[fault.name].append(seconds)
    console.print(f"caught up after {seconds:.1f} s; {len(site.load.produced):,} records")
    time.sleep(site.chance.uniform(0, 3))


def _catch_up(site: SoakSite, books: Books, what: str, fault: SoakFault | None = None) -> float:
    """Seconds until the table's log accounts for all present records of the topic and the dead letters of an
    outage are replayed. Starts a writer that ended.
    """
    began = time.monotonic()
    ends = site.ends()
    while not site.accounted() >= ends or site.replay_due:
        if site.load.failure is not None:
            raise site.load.failure
        _keep_up(site, books, what, fault)
        if time.monotonic() - began > _CATCH_UP_S:
            behind = "; ".join(
                f"{p}: {at} of {end}" for p, (at, end) in site.accounted().behind(ends).items()
            )
            raise NoRecovery(f"after {what} it did not catch up within {_CATCH_UP_S:.0f} s: {behind}")
        time.sleep(_LOOK_S)
    _keep_up(site, books, what, fault)
    return time.monotonic() - began


def _keep_up(site: SoakSite, books: Books, what: str, fault: SoakFault | None) -> None:
    """Starts the writer again if it has ended, and records an end without a reason."""
    if site.writer.alive:
        return
    expected = (
        site.writer.killed or site.writer.exit_code in (0, -9) or (fault is not None and fault.may_stop)
    )
    if not expected:
        books.stops.append(f"{what}: {site.writer.last_words()}")
    site.writer.start()


def _show(console: Console, books: Books, seed: int) -> None:
    table = Table("fault", "times", "recovered in s, typically", "at most", title=f"Soak with seed {seed}")
    for name, seconds in sorted(books.recoveries.items()):
        typical = sorted(seconds)[(len(seconds) - 1) // 2]
        table.add_row(name, str(len(seconds)), f"{typical:.1f}", f"{max(seconds):.1f}")
    console.print(table)
    for stop in books.stops:
        console.print(f"stopped without a reason: {stop}", style="red")
    audit_result = books.audit_result
    if audit_result is not None:
        console.print(
            f"misjudged {audit_result.misjudged}, altered {audit_result.altered}, stopped {len(books.stops)}; "
            f"{audit_result.published_again} dead letters were published again"
        )
        console.print(audit_result.line(), style="bold green" if books.sound else "bold red")


def main() -> int:
    """0 if no record was lost, duplicated, misjudged or altered, and no writer stopped without a reason."""
    parser = argparse.ArgumentParser(prog="soak", description="Load with random faults, and an audit.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    names = [fault.name for fault in FAULTS]
    parser.add_argument("--fault", action="append", choices=names, help="Draw this one; repeatable.")
    parser.add_argument("--keep", action="store_true", help="Keep the folder with tables and logs.")
    asked = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-soak-"))
    try:
        drawn = [fault for fault in FAULTS if fault.name in (asked.fault or names)]
        books = soak(console, folder, minutes=asked.minutes, seed=asked.seed, faults=drawn)
    except TidemarkError as error:
        console.print(f"{error}\nall files are in {folder}", style="bold red")
        return 1
    _show(console, books, asked.seed)
    if books.sound and not asked.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        console.print(f"all files are in {folder}")
    return 0 if books.sound else 1


if __name__ == "__main__":
    sys.exit(main())
