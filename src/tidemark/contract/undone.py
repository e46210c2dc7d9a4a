"""Versions of a table that a RESTORE reverted: the rows that they added are deleted."""

from __future__ import annotations

from typing import TypeAlias

Undone: TypeAlias = tuple[tuple[int, int], ...]
"""Disjoint ranges of table versions (after, before), both exclusive, oldest first."""

_MOST_RANGES = 20


def with_restore(undone: Undone, *, back_to: int, restored_at: int) -> Undone:
    """`undone` after one more RESTORE, the newest.

    Bounded, as every ledger commit contains it: with too many ranges the two oldest become one. A version in
    between then counts as undone, which costs a replay that finds its row.

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
    """Whether a RESTORE reverted `version`.

    >>> is_undone(5, ((2, 9),)), is_undone(9, ((2, 9),))
    (True, False)
    """
    return any(low < version < high for low, high in undone)
