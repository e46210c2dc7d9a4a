"""`tidemark doctor`: examines this machine and reports what is missing and how to fix it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import typer
from rich.text import Text

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings
from tidemark.cli.output import print_json, stdout
from tidemark.config.reading.faults import ConfigurationFaults
from tidemark.config.redaction import masked_text
from tidemark.config.settings import Settings
from tidemark.contract.errors import TidemarkError

app = typer.Typer(add_completion=False)

PINNED = {"pyspark": "4.2.0", "delta-spark": "4.4.0"}
BROKER_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Finding:
    """The result of one examination. `fix` is a command or a step, where it is not `ok`."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


@app.command()
def doctor(*, config: Config = DEFAULT_CONFIG, target: Target = None, as_json: AsJson = False) -> None:
    """Examine Java, packages, jars, configuration, schemas, folders and the broker.

    Each problem comes with a fix. Exit code 1 if there is any.
    """
    findings: list[Finding] = []
    console = stdout()
    for finding in examine(config, target):
        findings.append(finding)
        if not as_json:
            console.print(_line(finding))
    ok = all(f.ok for f in findings)
    if as_json:
        print_json({"ok": ok, "findings": [asdict(f) for f in findings]})
    elif ok:
        console.print("No problem found.")
    if not ok:
        raise typer.Exit(1)


def examine(config: Path, target: str | None) -> Iterator[Finding]:
    yield _python()
    on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
    if not on_databricks:
        yield _guarded("java", _java)
        yield _guarded("user", _user)
        yield _guarded("temporary folder", _temporary_folder)
        yield _guarded("file names", _file_names)
    for package, version in PINNED.items():
        yield _package(package, version)
    if not on_databricks:
        yield _guarded("jars", _jars)
    try:
        settings = open_settings(config, target)
    except ConfigurationFaults as e:
        fix = f"tidemark check --config {config}" + (f" --target {target}" if target else "")
        yield Finding("configuration", False, f"{len(e.faults)} fault(s), first: {e.faults[0]}", fix)
        return
    yield Finding("configuration", True, f"{config}: {', '.join(settings.streams)}")
    yield _guarded("schemas", lambda: _schemas(settings))
    for name, folder in _folders(settings):
        yield _folder(name, folder)
    yield _guarded("broker", lambda: _broker(settings))


def _guarded(name: str, examine: Callable[[], Finding]) -> Finding:
    """A failed examination is a finding too, so that the others still run."""
    try:
        return examine()
    except TidemarkError as e:
        return Finding(name, False, masked_text(e.message), masked_text(e.hint or ""))
    except Exception as e:
        return Finding(name, False, masked_text(f"{type(e).__name__}: {e}"))


def _python() -> Finding:
    version = ".".join(str(n) for n in sys.version_info[:3])
    return Finding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _java() -> Finding:
    from tidemark.platform.jvm.java import find_java

    java = find_java()
    return Finding("java", True, f"{java.version} in {java.home}")


def _user() -> Finding:
    from tidemark.platform.jvm.environment import user_name

    return Finding("user", True, user_name())


def _temporary_folder() -> Finding:
    from tidemark.platform.jvm.environment import temporary_folder

    return Finding("temporary folder", True, temporary_folder())


def _file_names() -> Finding:
    from tidemark.platform.jvm.environment import UTF_8_HINT, file_name_encoding, is_utf_8

    encoding = file_name_encoding()
    return Finding("file names", is_utf_8(encoding), f"Java writes them as {encoding}", UTF_8_HINT)


def _package(package: str, version: str) -> Finding:
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        found = "not installed"
    fix = "" if found == version else f"pip install '{package}=={version}'"
    same_line = found.split(".")[:2] == version.split(".")[:2]
    return Finding(package, same_line, found if found == version else f"{found}, tested with {version}", fix)


def _jars() -> Finding:
    from tidemark.platform.jvm.jars import pinned, tidemark_home

    folder = tidemark_home() / "jars"
    wanted = {jar.file_name: jar.size for jars in ("spark", "broker", "s3") for jar in pinned(jars)}
    missing = [n for n, size in wanted.items() if not _has_size(folder / n, size)]
    detail = f"{len(wanted) - len(missing)} of {len(wanted)} in {folder}"
    return Finding("jars", not missing, detail, "python -m tidemark.platform.jvm.ready" if missing else "")


def _has_size(file: Path, size: int) -> bool:
    return file.is_file() and file.stat().st_size == size


def _schemas(settings: Settings) -> Finding:
    from tidemark.cli.check import schema_faults

    faults = schema_faults(settings, quick=True)
    if faults:
        return Finding("schemas", False, f"{len(faults)} fault(s), first: {faults[0]}", "tidemark check")
    count = sum(stream.destination is not None for stream in settings.streams.values())
    return Finding("schemas", True, f"{count} read")


def _folders(settings: Settings) -> Iterator[tuple[str, str]]:
    yield "state folder", str(settings.state_dir)
    yield "checkpoints", settings.checkpoint_root
    for name in settings.streams:
        for kind, table in settings.tables(name).items():
            if table.path is not None:
                yield f"table {name}{'' if kind == 'decoded' else ' (landing)'}", table.path


def _folder(name: str, location: str) -> Finding:
    """Whether the folder is writable or can be created. One on an object store is only reported: a try needs
    credentials and time.
    """
    if not location.startswith(("/", "file:")):
        return Finding(name, True, f"{location} (not tried)")
    folder = Path("/" + location.removeprefix("file:").lstrip("/"))
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir():
        return Finding(name, False, f"{existing} is a file where a folder is needed", "move it away")
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding(name, False, f"this user may not write {existing}", f"chmod u+w {existing}")
    return Finding(name, True, str(folder) if existing == folder else f"{folder} (will be created)")


def _broker(settings: Settings) -> Finding:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from tidemark.source.clients import admin_options

    servers = settings.kafka.bootstrap_servers
    local = servers.startswith(("localhost", "127."))
    remote = "check kafka.bootstrap-servers, kafka.security and the network"
    fix = "tidemark broker start" if local else remote
    if refused := _refused(servers):
        return Finding("broker", False, f"{servers} does not answer: {refused}", fix)
    client = AdminClient({**admin_options(settings.kafka), "socket.timeout.ms": int(BROKER_TIMEOUT_S * 1000)})
    try:
        known = client.list_topics(timeout=BROKER_TIMEOUT_S)
    except KafkaException as e:
        return Finding("broker", False, masked_text(f"{servers} does not answer: {e.args[0].str()}"), fix)
    absent = sorted({s.kafka_topic for s in settings.streams.values()} - set(known.topics))
    if absent:
        produce = f"tidemark broker produce {absent[0]} --file FILE (without --file: sample user events)"
        fix = produce if local else f"create it, or correct connector.topics.<name>.kafka-topic: {absent[0]}"
        return Finding("broker", False, f"{servers} answers, but has no topic {', '.join(absent)}", fix)
    return Finding("broker", True, f"{servers}, {len(known.brokers)} broker(s), every topic is there")


def _refused(servers: str) -> str | None:
    """Why no server accepts a connection, or None if one does; librdkafka takes long to report it."""
    reasons = []
    for server in servers.split(","):
        host, _, port = server.rpartition("://")[2].rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=BROKER_TIMEOUT_S):
                return None
        except OSError as e:
            reasons.append(e.strerror or str(e))
    return ", ".join(dict.fromkeys(reasons)).lower()


def _line(finding: Finding) -> Text:
    mark = ("✓", "green") if finding.ok else ("✗", "bold red")
    line = Text.assemble(mark, " ", (finding.name, "bold"), ": ", finding.detail)
    if finding.fix and not finding.ok:
        line.append(f"\n    hint: {finding.fix}", "cyan")
    return line
