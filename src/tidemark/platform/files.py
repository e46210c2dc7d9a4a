"""Small files in a local folder, a mounted volume, or an object store."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Files(Protocol):
    """Reads text and lists names; an absent file is None, an absent folder is empty."""

    def read_text(self, path: str) -> str | None: ...

    def names(self, folder: str) -> list[str]: ...

    def delete(self, path: str) -> None: ...


@dataclass(frozen=True)
class LocalFiles:
    """Paths of this machine, Databricks volumes among them."""

    def read_text(self, path: str) -> str | None:
        try:
            return _local(path).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(_local(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, path: str) -> None:
        shutil.rmtree(_local(path), ignore_errors=True)


@dataclass(frozen=True)
class HadoopFiles:
    """Anything Hadoop's file systems reach (`s3a://`), through the JVM; not over Spark Connect."""

    def read_text(self, path: str) -> str | None:
        jvm, file_system, target = self._at(path)
        if not file_system.exists(target):
            return None
        stream = file_system.open(target)
        try:
            return str(jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream).decode("utf-8"))
        except (UnicodeDecodeError, AttributeError):
            return None
        finally:
            stream.close()

    def names(self, folder: str) -> list[str]:
        _, file_system, target = self._at(folder)
        if not file_system.exists(target):
            return []
        return sorted(status.getPath().getName() for status in file_system.listStatus(target))

    def delete(self, path: str) -> None:
        _, file_system, target = self._at(path)
        file_system.delete(target, True)

    def _at(self, path: str) -> tuple[Any, Any, Any]:
        from pyspark.sql import SparkSession

        # Streams run in threads without an active session: this is the session of the process.
        spark: Any = SparkSession.builder.getOrCreate()
        jvm = spark._jvm
        target = jvm.org.apache.hadoop.fs.Path(path)
        return jvm, target.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()), target


@dataclass(frozen=True)
class ArrowFiles:
    """Objects of a store through pyarrow's own client: no JVM. Paths are `scheme://bucket/key`."""

    filesystem: Any

    def read_text(self, path: str) -> str | None:
        try:
            with self.filesystem.open_input_stream(_key(path)) as stream:
                return str(stream.read(), "utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def names(self, folder: str) -> list[str]:
        from pyarrow.fs import FileSelector

        found = self.filesystem.get_file_info(FileSelector(_key(folder), allow_not_found=True))
        return sorted(info.base_name for info in found)

    def delete(self, path: str) -> None:
        self.filesystem.delete_dir(_key(path))


def files_at(location: str) -> Files:
    """The files under this location."""
    return LocalFiles() if location.startswith(("/", "file:")) or "://" not in location else HadoopFiles()


def _key(path: str) -> str:
    return path.partition("://")[2]


def _local(path: str) -> Path:
    return Path(path.removeprefix("file://").removeprefix("file:"))
