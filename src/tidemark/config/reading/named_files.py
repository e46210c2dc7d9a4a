"""The files that a configuration names: each must exist, and a schema is found by its stream's name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tidemark.config.kafka import TLS_FILES, Tls
from tidemark.config.reading.faults import Finding, KeyPath
from tidemark.config.reading.layering import TOPICS, value_at
from tidemark.config.stream import Stream

SCHEMA_FOLDER = "schemas"
SCHEMA_ENDINGS = (".ddl", ".avsc", ".json")


def with_schemas_by_name(values: dict[str, Any], config_dir: Path) -> dict[str, Any]:
    """A stream that decodes and names no schema gets the one of its name: `schemas/<stream>.ddl`, else
    `.avsc`, else `.json`, next to the configuration.
    """
    topics = value_at(values, TOPICS)
    for name, stream in topics.items() if isinstance(topics, dict) else ():
        if (
            isinstance(stream, dict)
            and "destination" in stream
            and "schema" not in stream
            and "/" not in name
        ):
            files = [f"{SCHEMA_FOLDER}/{name}{ending}" for ending in SCHEMA_ENDINGS]
            found = next((file for file in files if (config_dir / file).is_file()), None)
            if found is not None:
                stream["schema"] = {"file": found}
    return values


def missing_files(
    streams: Mapping[str, Stream], tls: Tls | None, config_dir: Path, *, hidden: Collection[KeyPath] = ()
) -> Iterator[Finding]:
    """A finding for each named file that does not exist or is a folder; those at the paths `hidden` are not shown."""
    named = [((*TOPICS, name, *keys), file) for name, s in streams.items() for keys, file in _of_stream(s)]
    if tls is not None:
        at: KeyPath = ("kafka", "security", "tls")
        named += [((*at, field.replace("_", "-")), getattr(tls, field)) for field in TLS_FILES]
    for path, written in named:
        if written is None:
            continue
        file = config_dir / os.path.expanduser(written)
        shown = "of the name that the environment gave" if path in hidden else written
        if os.path.isdir(file):
            yield path, "is a folder" if path in hidden else f"{written} is a folder", "name a file in it"
        elif not os.path.isfile(file):
            others = (
                [f.name for f in file.parent.iterdir() if f.is_file()] if os.path.isdir(file.parent) else []
            )
            near = get_close_matches(file.name, others, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else "create it, or correct the path"
            yield path, f"there is no file {shown} next to the configuration", hint


def _of_stream(stream: Stream) -> list[tuple[KeyPath, str | None]]:
    by_id = [(("avro", "schema-files", str(i)), file) for i, file in stream.avro.schema_files.items()]
    return [
        (("schema", "file"), stream.schema_.file if stream.schema_ is not None else None),
        (("avro", "writer-schema"), stream.avro.writer_schema),
        (("avro", "reader-schema"), stream.avro.reader_schema),
        *by_id,
    ]
