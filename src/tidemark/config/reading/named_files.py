"""Files that the configuration names: they are there, and a schema is found by its stream's name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tidemark.config.kafka import TLS_FILES
from tidemark.config.reading.collisions import TOPICS
from tidemark.config.reading.faults import KeyPath
from tidemark.config.reading.shape import Finding

SCHEMA_FOLDER = "schemas"
SCHEMA_ENDINGS = (".ddl", ".avsc", ".json")


def with_schemas_by_name(values: dict[str, Any], config_dir: Path) -> dict[str, Any]:
    """A stream that decodes and names no schema has the one of its name: `schemas/<stream>.ddl`, else
    `.avsc`, else `.json`, beside the configuration.
    """
    for name, stream in _streams(values):
        if "destination" in stream and "schema" not in stream and "/" not in name:
            files = [f"{SCHEMA_FOLDER}/{name}{ending}" for ending in SCHEMA_ENDINGS]
            found = next((file for file in files if (config_dir / file).is_file()), None)
            if found is not None:
                stream["schema"] = {"file": found}
    return values


def missing_files(values: dict[str, Any], config_dir: Path) -> Iterator[Finding]:
    """A finding for each file that is named and cannot be read as one."""
    for path, written in _named(values):
        file = config_dir / os.path.expanduser(written)
        if os.path.isdir(file):
            yield path, f"{written} is a folder", "name a file in it"
        elif not os.path.isfile(file):
            beside = (
                [f.name for f in file.parent.iterdir() if f.is_file()] if os.path.isdir(file.parent) else []
            )
            near = get_close_matches(file.name, beside, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else "create it, or correct the path"
            yield path, f"there is no file {written} beside the configuration", hint


def _named(values: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    for name, stream in _streams(values):
        candidates: list[tuple[tuple[str, ...], Any]] = [
            (("schema", "file"), _at(stream, "schema", "file")),
            (("avro", "writer-schema"), _at(stream, "avro", "writer-schema")),
            (("avro", "reader-schema"), _at(stream, "avro", "reader-schema")),
        ]
        by_id = _at(stream, "avro", "schema-files")
        if isinstance(by_id, dict):
            candidates += [(("avro", "schema-files", str(i)), file) for i, file in by_id.items()]
        for keys, file in candidates:
            if isinstance(file, str):
                yield (*TOPICS, name, *keys), file
    for field in TLS_FILES:
        key = field.replace("_", "-")
        file = _at(values, "kafka", "security", "tls", key)
        if isinstance(file, str):
            yield ("kafka", "security", "tls", key), file


def _streams(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    topics = _at(values, *TOPICS)
    for name, stream in topics.items() if isinstance(topics, dict) else ():
        if isinstance(stream, dict):
            yield str(name), stream


def _at(values: Any, *keys: str | int) -> Any:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values
