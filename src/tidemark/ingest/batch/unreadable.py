"""Records that the broker has, but cannot give back: a segment whose checksum is wrong."""

from __future__ import annotations

import re

from tidemark.contract.errors import DataLoss
from tidemark.resilience.error_info import error_info_of

_AT = re.compile(r"Record (?:batch )?for partition (\S+)-(\d+) at offset (\d+) is invalid, cause: ([^\n]*)")


def check_readable(error: Exception, stream: str) -> None:
    """Raises DataLoss, with partition and offset, where `error` says that a fetched record is damaged: no
    retry fixes that, and no other reader gets past it either. Returns where it is about something else.
    """
    for link in error_info_of(error).links:
        found = _AT.search(link.message)
        if found is not None:
            topic, partition, offset, why = found.groups()
            raise DataLoss(
                f"topic {topic} cannot be read at partition {partition}, offset {offset}:"
                f" {why.strip()[:200]}",
                "restore the partition from a replica or a backup; to go on without the damaged batch:"
                f" tidemark rewind --stream {stream} --to-offset {partition}=<the first offset behind it>",
            ) from error
