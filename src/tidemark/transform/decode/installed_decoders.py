"""Decoders of installed packages: what takes a payload out of the wrapping of its topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points

from pyspark.sql import Column

from tidemark.contract.errors import ConfigError

GROUP = "tidemark.decoders"

Decoder = Callable[[Column], Column]
"""From the payload's bytes to the bytes inside, NULL where there are none. A pure function of Columns: no
UDF, no clock. NULL rejects the record with UNSUPPORTED_FORMAT; its own bytes go to the dead letter."""


def decoder_named(
    name: str, found: Callable[[], Iterable[EntryPoint]] = lambda: entry_points(group=GROUP)
) -> Decoder:
    """The decoder that an installed package offers under this name. Raises ConfigError without one."""
    points = {point.name: point for point in found()}
    if name not in points:
        known = ", ".join(sorted(points)) or "none"
        raise ConfigError(
            f"no installed package offers a decoder {name} (installed: {known})",
            f"install the package that has the entry point {name} in the group {GROUP}",
        )
    try:
        decoder = points[name].load()
    except Exception as error:
        raise ConfigError(
            f"the decoder {name} ({points[name].value}) cannot be loaded: {error!r}",
            "fix or reinstall the package that brings it",
        ) from error
    if not callable(decoder):
        raise ConfigError(
            f"the decoder {name} ({points[name].value}) is no function",
            "it takes the payload as a Column and returns a Column",
        )
    return decoder  # type: ignore[no-any-return]  # what a package brings has no type here
