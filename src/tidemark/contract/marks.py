"""Marks: the next offset to read of each partition of one topic, exclusive ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Marks(Mapping[int, int]):
    """An immutable vector partition -> next offset; 0 for a partition that it does not contain.

    >>> Marks({0: 5}).highest(Marks({0: 3, 1: 2}))
    Marks({0: 5, 1: 2})
    >>> Marks({0: 5}) >= Marks({0: 5, 1: 0})
    True
    """

    offsets: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", {int(p): int(o) for p, o in sorted(self.offsets.items())})

    def __getitem__(self, partition: int) -> int:
        return self.offsets[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)

    def __hash__(self) -> int:
        return hash(tuple(self.offsets.items()))

    def __repr__(self) -> str:
        return f"Marks({dict(self.offsets)})"

    def at(self, partition: int) -> int:
        return self.offsets.get(partition, 0)

    def highest(self, other: Mapping[int, int]) -> Marks:
        """The larger offset of each partition: a batch never moves marks back."""
        return Marks({p: max(self.at(p), other.get(p, 0)) for p in {*self, *other}})

    def lowest(self, other: Mapping[int, int]) -> Marks:
        """The smaller offset of each partition; a start resumes at `marks.lowest(published)`."""
        return Marks({p: min(self.at(p), other.get(p, 0)) for p in {*self, *other}})

    def __ge__(self, other: Marks) -> bool:
        return all(self.at(p) >= other.at(p) for p in {*self, *other})

    def __le__(self, other: Marks) -> bool:
        return other >= self

    def behind(self, other: Marks) -> dict[int, tuple[int, int]]:
        """The partitions whose mark is below that of `other`: partition -> (this mark, the other)."""
        return {p: (self.at(p), other.at(p)) for p in sorted({*self, *other}) if self.at(p) < other.at(p)}
