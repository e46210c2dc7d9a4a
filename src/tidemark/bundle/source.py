"""The bundle as it is written: `databricks.yml` and every file that it includes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemark.bundle.yaml_lines import KeyPath, Place, YamlFile, read_yaml

ROOT_FILE = "databricks.yml"


@dataclass(frozen=True)
class BundleSource:
    """The files of one bundle. `files[0]` is `databricks.yml`."""

    root: Path
    files: tuple[YamlFile, ...]

    @property
    def targets(self) -> list[str]:
        return list(self.main.values.get("targets") or {})

    @property
    def main(self) -> YamlFile:
        return self.files[0]

    def place(self, path: KeyPath, target: str | None = None) -> Place:
        """The line of this key, or of the nearest one above it; the target's own value first."""
        for length in range(len(path), 0, -1):
            for asked in (("targets", target, *path[:length]), path[:length]) if target else (path[:length],):
                for file in reversed(self.files):
                    if asked in file.places:
                        return file.places[asked]
        return Place(self.main.name, 1)

    def resources(self) -> Iterator[tuple[YamlFile, KeyPath, str, str, dict[str, Any]]]:
        """Every resource as written: its file, key, kind, name and values; those of targets too."""
        for file in self.files:
            yield from _resources(file, file.values.get("resources"), ("resources",))
            for target, values in (file.values.get("targets") or {}).items():
                inside = (values or {}).get("resources")
                yield from _resources(file, inside, ("targets", target, "resources"))


def read_bundle(folder: Path) -> BundleSource:
    """Raises UsageError where `databricks.yml` or an included file cannot be read."""
    root = folder.resolve()
    main = read_yaml(root / ROOT_FILE, root=root)
    included = sorted({p for pattern in main.values.get("include") or [] for p in root.glob(str(pattern))})
    return BundleSource(root, (main, *(read_yaml(path, root=root) for path in included)))


def _resources(
    file: YamlFile, kinds: Any, at: KeyPath
) -> Iterator[tuple[YamlFile, KeyPath, str, str, dict[str, Any]]]:
    for kind, named in (kinds or {}).items():
        for name, values in (named or {}).items():
            yield file, (*at, kind, name), kind, name, values or {}
