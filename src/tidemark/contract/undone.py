"""Versions of a table that a RESTORE took back: rows that were added in them are gone."""

from __future__ import annotations

from typing import TypeAlias

Undone: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of table versions (after, before), both exclusive, oldest first and apart from each other."""

_MOST_RANGES = 20


def with_restore(undone: Undone, *, back_to: int, restored_at: int) -> Undone:
    """`undone` after one more RESTORE, newer than those before.

    Bounded, as every ledger commit carries it: the two oldest ranges become one where there are too many. A
    version in between is then taken for undone, which costs a replay that finds its row.

    >>> with_restore(((2, 9),), back_to=11, restored_at=14)
    ((2, 9), (11, 14))
    >>> with_restore(((2, 9), (11, 14)), back_to=8, restored_at=20)
    ((2, 20),)
    """
    apart = [(low, high) for low, high in undone if high < back_to]
    joined = [low for low, high in undone if high >= back_to]
    ranges = [*apart, (min([back_to, *joined]), restored_at)]
    while len(ranges) > _MOST_RANGES:
        ranges[:2] = [(ranges[0][0], ranges[1][1])]
    return tuple(ranges)


def is_undone(version: int, undone: Undone) -> bool:
    """Whether a RESTORE took `version` back.

    >>> is_undone(5, ((2, 9),)), is_undone(9, ((2, 9),))
    (True, False)
    """
    return any(low < version < high for low, high in undone)
