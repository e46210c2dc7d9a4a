"""`load_settings`: from files to frozen settings, or to one error that names every fault."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tidemark.config.kafka import Tls
from tidemark.config.reading.collisions import between_streams, with_listener
from tidemark.config.reading.contradictions import in_section
from tidemark.config.reading.document import Document, parse_document, read_document
from tidemark.config.reading.faults import (
    ConfigurationFaults,
    Fault,
    Finding,
    KeyPath,
    Place,
    fault_at,
    related,
)
from tidemark.config.reading.layering import (
    overlay,
    with_empty_streams,
    without_nulls,
    without_spring_root,
)
from tidemark.config.reading.named_files import missing_files, with_schemas_by_name
from tidemark.config.reading.validation import SectionReader
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

    `target` names a second file next to the first: `tidemark.prod.yml` or `tidemark-prod.yml` for
    `tidemark.yml` and `prod`. `overrides` are nested sections, or dotted keys such as
    `{"kafka.bootstrap-servers": "broker:9092"}`. `environ` fills `${NAME}` and `${NAME:default}`; by
    default it is the process's own. Raises ConfigError with every fault at once.
    """
    environ = os.environ if environ is None else environ
    file = Path(path).expanduser()
    document = with_empty_streams(without_spring_root(read_document(file, environ=environ)))
    if target:
        layer = without_spring_root(read_document(override_file(file, target), environ=environ))
        document.faults += layer.faults
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
    """The settings of a YAML text, for notebooks and tests. Relative paths lie under `root`, the current
    folder by default. Raises ConfigError with every fault at once.
    """
    environ = os.environ if environ is None else environ
    document = with_empty_streams(without_spring_root(parse_document(text, file=name, environ=environ)))
    folder = (root or Path.cwd()).resolve()
    return _settings(document, overrides, config_dir=folder, root=folder)


def override_file(file: Path, target: str) -> Path:
    """The target's file next to `file`. Raises ConfigError where there is none, or more than one."""
    candidates = [
        file.with_name(f"{file.stem}{sign}{target}{end}") for sign in ".-" for end in (".yml", ".yaml")
    ]
    found = [candidate for candidate in candidates if candidate.is_file()]
    if len(found) == 1:
        return found[0]
    problem, hint = f"target {target} has two files, {' and '.join(f.name for f in found)}", "keep one"
    if not found:
        others = sorted(p.name for p in file.parent.glob(f"{file.stem}[.-]*.y*ml"))
        problem, hint = f"target {target} has no file", f"write {candidates[0].name} next to it"
        hint += f"; there are {', '.join(others)}" if others else ""
    raise ConfigurationFaults([Fault(str(file), "", 0, problem, hint)])


def _settings(
    document: Document,
    overrides: Mapping[str, Any] | None,
    *,
    config_dir: Path,
    root: Path,
    file: Path | None = None,
    target: str | None = None,
) -> Settings:
    if overrides:
        overlay(document, without_spring_root(_override_document(overrides)))
    values = with_schemas_by_name(without_nulls(document.values), config_dir)
    reader = SectionReader(document.from_environment)
    model = reader.read(ConfigurationFile, values)
    hidden = document.from_environment
    findings = [*reader.findings, *_cross_field(reader, values, root, config_dir, hidden)]
    faults = document.faults + [
        fault_at(document.places, finding, file=document.file)
        for finding in findings
        if not any(related(finding[0], path) for path in document.unreadable)
    ]
    if faults or model is None:
        raise ConfigurationFaults(faults)
    return settings_of(
        model, config_dir=config_dir, root=root, file=file, target=target, places=document.places
    )


def _override_document(overrides: Mapping[str, Any]) -> Document:
    document = Document(OVERRIDES)
    for key, value in overrides.items():
        parts = tuple(key.split("."))
        here = document.values
        for part in parts[:-1]:
            here = here.setdefault(part, {})
        here[parts[-1]] = value
        document.places[parts] = Place(OVERRIDES, 0, parts)
    return document


def _cross_field(
    reader: SectionReader,
    values: dict[str, Any],
    root: Path,
    config_dir: Path,
    hidden: Collection[KeyPath],
) -> Iterator[Finding]:
    """What no single section shows, in whatever sections are usable. A result of a key's fault is left out."""
    sections = reader.sections
    faulty = [path for path, _, _ in reader.findings]
    for at, section in sections.items():
        for finding in in_section(section, at, sections):
            if not any(related(finding[0], path) for path in faulty):
                yield finding
    streams = {str(at[-1]): s for at, s in sections.items() if isinstance(s, Stream)}
    yield from with_listener(streams, sections)
    checkpoint_root = values.get("checkpoint-root", ConfigurationFile.model_fields["checkpoint_root"].default)
    yield from between_streams(
        streams, root=root, checkpoint_root=checkpoint_root if isinstance(checkpoint_root, str) else None
    )
    tls = sections.get(("kafka", "security", "tls"))
    yield from missing_files(streams, tls if isinstance(tls, Tls) else None, config_dir, hidden=hidden)
