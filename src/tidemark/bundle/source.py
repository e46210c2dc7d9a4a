"""The bundle as it is written: `databricks.yml` and every file that it includes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tidemark.config.reading.document import Document, read_document
from tidemark.config.reading.faults import ConfigurationFaults, KeyPath, Place
from tidemark.contract.errors import UsageError

ROOT_FILE = "databricks.yml"


class Resource(NamedTuple):
    """A resource as written, of the bundle or of one target: its file, key path, kind, name and values."""

    file: Document
    path: KeyPath
    kind: str
    name: str
    values: dict[str, Any]

    def place(self, *keys: str | int) -> Place:
        return self.file.places[(*self.path, *keys)]


@dataclass(frozen=True)
class BundleSource:
    """The files of one bundle. `files[0]` is `databricks.yml`."""

    root: Path
    files: tuple[Document, ...]

    @property
    def targets(self) -> list[str]:
        return list(self.main.values.get("targets") or {})

    @property
    def main(self) -> Document:
        return self.files[0]

    def relative_to(self, file: Document, written: str) -> Path:
        """The path `written` in a file, which is relative to the file's own folder."""
        return (self.root / file.file).parent / written

    def place(self, path: KeyPath, target: str | None = None) -> Place:
        """The line of this key, or of the nearest one above it; the target's own value first."""
        for length in range(len(path), 0, -1):
            for asked in (("targets", target, *path[:length]), path[:length]) if target else (path[:length],):
                for file in reversed(self.files):
                    if asked in file.places:
                        return file.places[asked]
        return Place(self.main.file, 1)

    def resources(self) -> Iterator[Resource]:
        """Every resource as written, those of targets too."""
        for file in self.files:
            sections: dict[KeyPath, Any] = {("resources",): file.values.get("resources")}
            for target, values in (file.values.get("targets") or {}).items():
                sections["targets", target, "resources"] = (values or {}).get("resources")
            for at, kinds in sections.items():
                for kind, named in (kinds or {}).items():
                    for name, values in (named or {}).items():
                        yield Resource(file, (*at, kind, name), kind, name, values or {})


def read_bundle(folder: Path) -> BundleSource:
    """Raises UsageError where `databricks.yml` or an included file cannot be read."""
    root = folder.resolve()
    main = _read(root / ROOT_FILE, root)
    included = sorted({p for pattern in main.values.get("include") or [] for p in root.glob(str(pattern))})
    return BundleSource(root, (main, *(_read(path, root) for path in included)))


def _read(path: Path, root: Path) -> Document:
    try:
        return read_document(path, environ=None, shown=path.relative_to(root).as_posix())
    except ConfigurationFaults as error:
        fault = error.faults[0]
        place = f"{fault.file}:{fault.line}" if fault.line else fault.file
        hint = "run it in the bundle's folder; docs/deploy.md explains its files"
        raise UsageError(f"{place}: {fault.problem}", hint) from error
