"""`load_settings`: from files to frozen settings, or to one error that names every fault."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tidemark.config.kafka import KafkaSettings
from tidemark.config.listener import Listener
from tidemark.config.reading.collisions import TOPICS, between_streams, with_listener
from tidemark.config.reading.contradictions import destination_faults, in_kafka, in_s3, in_stream
from tidemark.config.reading.document import Document, parse_document, read_document
from tidemark.config.reading.faults import ConfigurationFaults, Fault, KeyPath, Place, fault_at
from tidemark.config.reading.layering import (
    overlay,
    with_empty_streams,
    without_nulls,
    without_spring_root,
)
from tidemark.config.reading.named_files import missing_files, with_schemas_by_name
from tidemark.config.reading.shape import Finding, known_only
from tidemark.config.reading.validation import M, validated
from tidemark.config.sections import KafkaNative, MetricsSettings, S3Settings
from tidemark.config.settings import ConfigurationFile, Settings, settings_of
from tidemark.config.stream import Stream

CONF_FOLDERS = ("conf", "config")
OVERRIDES = "overrides"


def load_settings(
    path: str | Path,
    *,
    target: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of a file, its target's overrides laid over it, and `overrides` over both.

    `target` names a second file beside the first: `tidemark.prod.yml` or `tidemark-prod.yml` for
    `tidemark.yml` and `prod`. `overrides` are nested sections, or dotted keys such as
    `{"kafka.bootstrap-servers": "broker:9092"}`. `environ` fills `${NAME}` and `${NAME:default}`,
    the process's own by default. Raises ConfigError with every fault at once.
    """
    environ = os.environ if environ is None else environ
    file = Path(path).expanduser()
    document = without_spring_root(read_document(file, environ=environ))
    with_empty_streams(document.values)
    faults = document.faults
    if target:
        layer = without_spring_root(read_document(override_file(file, target), environ=environ))
        faults += layer.faults
        overlay(document, layer)
    folder = file.resolve().parent
    root = folder.parent if folder.name in CONF_FOLDERS else folder
    return _settings(document, overrides, config_dir=folder, root=root, file=file.resolve(), target=target)


def parse_settings(
    text: str,
    *,
    root: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    name: str = "configuration",
) -> Settings:
    """The settings of a YAML text, for notebooks and tests; relative paths lie under `root`, the
    current folder by default. Raises ConfigError with every fault at once.
    """
    environ = os.environ if environ is None else environ
    document = without_spring_root(parse_document(text, file=name, environ=environ))
    with_empty_streams(document.values)
    folder = (root or Path.cwd()).resolve()
    return _settings(document, overrides, config_dir=folder, root=folder, file=None, target=None)


def override_file(file: Path, target: str) -> Path:
    """The target's file beside `file`. Raises ConfigError where there is none, or more than one."""
    candidates = [
        file.with_name(f"{file.stem}{sign}{target}{end}") for sign in ".-" for end in (".yml", ".yaml")
    ]
    found = [candidate for candidate in candidates if candidate.is_file()]
    if len(found) == 1:
        return found[0]
    shown = str(file)
    if found:
        problem = f"target {target} has two files, {found[0].name} and {found[1].name}"
        raise ConfigurationFaults([Fault(shown, "", 0, problem, "keep one")])
    beside = sorted(p.name for p in file.parent.glob(f"{file.stem}[.-]*.y*ml"))
    hint = f"write {candidates[0].name} beside it" + (f"; there are {', '.join(beside)}" if beside else "")
    raise ConfigurationFaults([Fault(shown, "", 0, f"target {target} has no file", hint)])


def _settings(
    document: Document,
    overrides: Mapping[str, Any] | None,
    *,
    config_dir: Path,
    root: Path,
    file: Path | None,
    target: str | None,
) -> Settings:
    if overrides:
        overlay(document, without_spring_root(_override_document(overrides)))
    values, findings = known_only(without_nulls(document.values))
    with_schemas_by_name(values, config_dir)
    quiet = frozenset(document.from_environment)
    model, more = validated(ConfigurationFile, values, quiet=quiet)
    findings += more
    findings += _contradictions(values, root, quiet)
    findings += missing_files(values, config_dir)
    faults = [*document.faults]
    faults += [
        fault_at(document.places, *f, file=document.file)
        for f in findings
        if not _known(f, document.unreadable)
    ]
    if faults or model is None:
        raise ConfigurationFaults(faults)
    return settings_of(
        model, config_dir=config_dir, root=root, file=file, target=target, places=document.places
    )


def _override_document(overrides: Mapping[str, Any]) -> Document:
    document = Document(file=OVERRIDES)
    for key, value in overrides.items():
        parts = tuple(key.split("."))
        here = document.values
        for part in parts[:-1]:
            here = here.setdefault(part, {})
        here[parts[-1]] = value
        document.places[parts] = Place(OVERRIDES, 0, parts)
    return document


def _contradictions(values: dict[str, Any], root: Path, quiet: frozenset[KeyPath]) -> Iterator[Finding]:
    """What no single model can see. Runs on whatever is right by itself, so one fault hides no other."""
    kafka, found = _part(KafkaSettings, values, ("kafka",), quiet)
    yield from found
    if kafka is not None:
        yield from in_kafka(kafka)
    s3, found = _part(S3Settings, values, ("aws", "s3"), quiet)
    yield from found
    if s3 is not None:
        yield from in_s3(s3)
    native, _ = _part(KafkaNative, values, ("kafka-native",), quiet)
    metrics, _ = _part(MetricsSettings, values, ("metrics",), quiet)
    if metrics is not None and metrics.table is not None:
        yield from destination_faults(metrics.table, ("metrics", "table"))
    streams: dict[str, Stream] = {}
    topics = _at(values, TOPICS)
    for name, written in topics.items() if isinstance(topics, dict) else ():
        if not isinstance(written, dict):
            continue
        at: KeyPath = (*TOPICS, name)
        stream, found = validated(Stream, written, at, quiet=quiet)
        yield from found
        if stream is not None:
            streams[name] = stream
            faulty = {path for path, _, _ in found}
            for finding in in_stream(stream, at, native=native.idempotency.enabled if native else True):
                if not _consequence(finding[0], faulty):
                    yield finding
    checkpoint_root = values.get("checkpoint-root", ConfigurationFile.model_fields["checkpoint_root"].default)
    listener, found = _part(Listener, values, ("listener",), quiet)
    yield from found
    if listener is not None:
        group = kafka.consumer.group_id if kafka is not None else None
        yield from with_listener(streams, listener, group)
    yield from between_streams(
        streams, root=root, checkpoint_root=checkpoint_root if isinstance(checkpoint_root, str) else None
    )


def _part(
    model: type[M], values: dict[str, Any], at: KeyPath, quiet: frozenset[KeyPath]
) -> tuple[M | None, list[Finding]]:
    written = _at(values, at)
    return validated(model, written, at, quiet=quiet) if isinstance(written, dict) else (None, [])


def _at(values: Any, path: KeyPath) -> Any:
    for part in path:
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _consequence(path: KeyPath, faulty: set[KeyPath]) -> bool:
    """Whether a fault at or below this path was found already, of which this one is only a result."""
    return any(p[: len(path)] == path or path[: len(p)] == p for p in faulty)


def _known(finding: Finding, unreadable: set[KeyPath]) -> bool:
    return any(finding[0][: len(p)] == p or p[: len(finding[0])] == finding[0] for p in unreadable)
