"""`tidemark broker`: a local Kafka broker that runs until it is stopped, and records to produce into it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.options import AsJson
from tidemark.cli.output import print_json, stderr, stdout, table_of
from tidemark.contract.errors import UsageError
from tidemark.dev.detached_broker import DEFAULT_FOLDER, detached_status, start_detached, stop_detached
from tidemark.dev.producers import SampleRecord, create_topic, produce, topic_sizes
from tidemark.dev.samples import sample_events

app = typer.Typer(add_completion=False, no_args_is_help=True)

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
    """Start the broker, with its earlier data. It runs on after this command and the terminal end."""
    place = _folder(folder, config)
    with stderr().status("starting Kafka"):
        broker = start_detached(place, port=port)
    if port and broker.port != port:
        stderr().print(f"it runs already, on port {broker.port}", style="yellow")
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
    """Stop the broker of this folder. It is not a failure if none runs."""
    place = _folder(folder, config)
    ran = stop_detached(place, clean=clean)
    if as_json:
        print_json({"stopped": ran, "cleaned": clean, "folder": str(place.absolute())})
        return
    _say(("stopped" if ran else "no broker was running") + (", data removed" if clean else ""))


@app.command()
def status(*, folder: Folder = None, config: Config = None, as_json: AsJson = False) -> None:
    """Show whether the broker runs, and the size of its topics. Exit code 1 if it does not run."""
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
        rows = [(name, len(sizes), sum(sizes)) for name, sizes in topics.items()]
        stdout().print(table_of(("topic", "partitions", "records"), rows))
    if broker is None:
        raise typer.Exit(1)


@app.command("produce")
def produce_records(
    topic: Annotated[str, typer.Argument(help="Created if absent.")],
    *,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Send its lines, each a record; - is stdin."),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="The text between key and value."),
    ] = None,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="Number of sample events, instead of lines.")
    ] = None,
    bad_share: Annotated[
        float, typer.Option("--bad-share", min=0, max=1, help="Share of sample events that are bad.")
    ] = 0.01,
    seed: Annotated[int, typer.Option("--seed", help="Another seed gives other sample events.")] = 0,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Partitions of a new topic.")] = 6,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="Another broker than the local one."),
    ] = None,
    folder: Folder = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Send lines of a file, or 1,000 sample user events in JSON, CSV and Avro, some of them bad.

    Without --bootstrap the records go to the local broker: no configuration can send them elsewhere.
    """
    if file is not None and records is not None:
        raise UsageError("--file and --records both give the records to send", "leave one of them out")
    if key_separator is not None and not (file and key_separator):
        raise UsageError("--key-separator splits the lines of --file", "give both")
    lines = _lines(file) if file is not None else None
    address = bootstrap or _running(_folder(folder, config))
    created = topic not in topic_sizes(address)
    if created:
        # Retention must not delete the records, whatever their own time.
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
    new = ", which is new" if created else ""
    spread = ", ".join(f"{p}: {n:,}" for p, n in counts.items())
    count = f"{total:,} record{'' if total == 1 else 's'}"
    _say(f"{count} acknowledged by {topic}{new} (by partition {spread or 'none'})")


def _samples(count: int, bad_share: float, seed: int) -> Iterator[SampleRecord]:
    for event in sample_events(count, bad_share=bad_share, seed=seed):
        # Without their time: an existing topic's retention would delete records of 2024.
        yield SampleRecord(event.record.value, key=event.record.key, headers=event.record.headers)


def _lines(file: str) -> list[bytes]:
    """The lines without their ends. The last line may lack its end; an empty line is an empty record."""
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
    stdout().print(text, markup=False)
