"""`tidemark broker`: a real local Kafka that stays until it is stopped, and records to put into it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidemark.cli.options import AsJson, print_json
from tidemark.contract.errors import UsageError
from tidemark.dev.detached_broker import DEFAULT_FOLDER, detached_status, start_detached, stop_detached
from tidemark.dev.producers import SampleRecord, create_topic, produce, topic_sizes
from tidemark.dev.samples import sample_events

app = typer.Typer(no_args_is_help=True, help="A local Kafka broker: start, stop, status, produce.")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help=f"Keep the broker in this configuration's state-dir instead of {DEFAULT_FOLDER}.",
    ),
]
Folder = Annotated[
    Path | None, typer.Option("--folder", metavar="FOLDER", help="The broker's folder: data, log, settings.")
]


@app.command()
def start(
    *,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 9092,
    folder: Folder = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Start the broker, with the data of the last time. It outlives this command and the terminal."""
    place = _folder(folder, config)
    with Console(stderr=True).status("starting Kafka"):
        broker = start_detached(place, port=port)
    if port and broker.port != port:
        Console(stderr=True).print(f"it runs already, on port {broker.port}", style="yellow")
    if as_json:
        print_json(asdict(broker))
        return
    _say(f"Kafka answers on {broker.bootstrap} (process {broker.pid}, log {broker.log_file})")


@app.command()
def stop(
    *,
    clean: Annotated[bool, typer.Option("--clean", help="Remove its data as well.")] = False,
    folder: Folder = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Stop the broker of this folder. Nothing to stop is no failure."""
    place = _folder(folder, config)
    ran = stop_detached(place, clean=clean)
    if as_json:
        print_json({"stopped": ran, "cleaned": clean, "folder": str(place.absolute())})
        return
    _say(("stopped" if ran else "no broker was running") + (", data removed" if clean else ""))


@app.command()
def status(*, folder: Folder = None, config: Config = None, as_json: AsJson = False) -> None:
    """Say whether the broker runs and what its topics hold. Exit code 1 if it does not run."""
    place = _folder(folder, config)
    broker = detached_status(place)
    topics = topic_sizes(broker.bootstrap) if broker else {}
    if as_json:
        shown = {name: {"partitions": len(sizes), "records": sum(sizes)} for name, sizes in topics.items()}
        print_json({"running": broker is not None, **(asdict(broker) if broker else {}), "topics": shown})
    elif broker is None:
        _say(f"no broker runs in {place.absolute()}; start one: tidemark broker start")
    else:
        _say(f"Kafka answers on {broker.bootstrap} (process {broker.pid}, log {broker.log_file})")
        table = Table("topic", "partitions", "records")
        for name, sizes in topics.items():
            table.add_row(name, str(len(sizes)), f"{sum(sizes):,}")
        Console().print(table)
    if broker is None:
        raise typer.Exit(1)


@app.command("produce")
def produce_records(
    topic: Annotated[str, typer.Argument(help="Created if absent.")],
    *,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Send its lines, one a record; - is stdin."),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="What stands between key and value."),
    ] = None,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="Sample events instead of lines: how many.")
    ] = None,
    bad_share: Annotated[
        float, typer.Option("--bad-share", min=0, max=1, help="Share of sample events that are bad.")
    ] = 0.01,
    seed: Annotated[int, typer.Option("--seed", help="Other sample events.")] = 0,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Of a new topic.")] = 6,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="Instead of the local broker."),
    ] = None,
    folder: Folder = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Send lines of a file, or 1,000 sample user events in JSON, CSV and Avro, some of them bad.

    Without --bootstrap only ever into the local broker: no configuration can send samples elsewhere.
    """
    if file is not None and records is not None:
        raise UsageError("--file and --records both say what to send", "leave one of them out")
    if key_separator is not None and not (file and key_separator):
        raise UsageError("--key-separator splits the lines of --file", "give both")
    lines = _lines(file) if file is not None else None
    address = bootstrap or _running(_folder(folder, config))
    created = topic not in topic_sizes(address)
    if created:
        # Whatever the records' own time, a newcomer wants to find them again.
        create_topic(address, topic, partitions, retention_ms="-1")
    sent = (
        [_record(line, key_separator) for line in lines]
        if lines is not None
        else _samples(records or 1000, bad_share, seed)
    )
    per_partition = Counter(place.partition for place in produce(address, topic, sent))
    counts, total = {str(p): n for p, n in sorted(per_partition.items())}, per_partition.total()
    if as_json:
        print_json({"topic": topic, "created": created, "records": total, "partitions": counts})
        return
    made = ", which is new" if created else ""
    spread = ", ".join(f"{p}: {n:,}" for p, n in counts.items())
    count = f"{total:,} record{'' if total == 1 else 's'}"
    _say(f"{count} acknowledged by {topic}{made} (by partition {spread or 'none'})")


def _samples(count: int, bad_share: float, seed: int) -> Iterator[SampleRecord]:
    for event in sample_events(count, bad_share=bad_share, seed=seed):
        # Dated now: an existing topic's retention would take records of 2024 away.
        yield SampleRecord(event.record.value, key=event.record.key, headers=event.record.headers)


def _lines(file: str) -> list[bytes]:
    """The lines without their ends. A last line needs none; an empty line is a record without content."""
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "name a file, or - for stdin") from error
    lines = text.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _record(line: bytes, separator: str | None) -> SampleRecord:
    if separator is None:
        return SampleRecord(line)
    key, found, value = line.partition(separator.encode())
    return SampleRecord(value, key=key) if found else SampleRecord(line)


def _running(folder: Path) -> str:
    broker = detached_status(folder)
    if broker is None:
        raise UsageError(
            f"no broker runs in {folder.absolute()}",
            "tidemark broker start, or name another broker with --bootstrap HOST:PORT",
        )
    return broker.bootstrap


def _folder(folder: Path | None, config: Path | None) -> Path:
    if folder is not None:
        return folder.expanduser()
    if config is None:
        return DEFAULT_FOLDER
    from tidemark.config.reading.load import load_settings

    return load_settings(config).state_dir / "broker"


def _say(text: str) -> None:
    Console(highlight=False, soft_wrap=True).print(text, markup=False)
