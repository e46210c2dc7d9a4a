"""Stores of the archive's objects: a folder (a volume too) or an S3 bucket. Objects are written whole."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from tidemark.config.reports import ArchiveOptions
from tidemark.contract.errors import ConfigError


class ObjectStore(Protocol):
    """Keys are relative, with `/`. `write` replaces; a reader never sees part of an object."""

    def write(self, key: str, body: bytes) -> None: ...

    def read(self, key: str) -> bytes | None: ...

    def listing(self) -> Iterator[tuple[str, float]]:
        """Every key with the time it was written, in seconds since 1970."""
        ...

    def delete(self, key: str) -> None: ...


class Folder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, key: str, body: bytes) -> None:
        target = self._root / key
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with unfinished.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)

    def read(self, key: str) -> bytes | None:
        try:
            return (self._root / key).read_bytes()
        except FileNotFoundError:
            return None

    def listing(self) -> Iterator[tuple[str, float]]:
        for path in sorted(self._root.rglob("*")):
            try:
                if path.is_file():
                    yield path.relative_to(self._root).as_posix(), path.stat().st_mtime
            except FileNotFoundError:
                continue

    def delete(self, key: str) -> None:
        target = self._root / key
        target.unlink(missing_ok=True)
        try:
            target.parent.rmdir()
        except OSError:
            return


class Bucket:
    def __init__(self, client: Any, *, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def write(self, key: str, body: bytes) -> None:
        self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=body)

    def read(self, key: str) -> bytes | None:
        try:
            return bytes(self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read())
        except self._client.exceptions.NoSuchKey:
            return None

    def listing(self) -> Iterator[tuple[str, float]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix
        )
        for page in pages:
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(self._prefix), entry["LastModified"].timestamp()

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)


def open_objects(options: ArchiveOptions, *, credentials: Mapping[str, str] | None = None) -> ObjectStore:
    """`credentials`: boto3's names; without them its usual chain."""
    scheme, separator, rest = options.location.partition("://")
    if not separator:
        return Folder(Path(options.location))
    if scheme == "file":
        return Folder(Path(rest))
    if scheme not in ("s3", "s3a"):
        raise ConfigError(
            f"`reports.archive.location` has the scheme {scheme}", hint="use a folder or s3a://bucket/prefix"
        )
    import boto3
    from botocore.config import Config

    bucket, _, prefix = rest.partition("/")
    # The listener retries; retries of the client would multiply the attempts.
    client = boto3.client(
        "s3",
        endpoint_url=options.endpoint,
        region_name=options.region,
        **(credentials or {}),
        config=Config(
            retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=10, read_timeout=30
        ),
    )
    return Bucket(client, bucket=bucket, prefix=prefix)
