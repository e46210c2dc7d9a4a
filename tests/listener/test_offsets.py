"""Contiguous prefixes: what may be committed, in every order that records can come and finish in."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidemark.listener.delivery.batch import Partition
from tidemark.listener.delivery.offsets import PartitionOffsets
from tidemark.listener.delivery.rebalance import Rebalance


def test_the_next_offset_is_committed_when_all_before_it_are_done() -> None:
    offsets = PartitionOffsets(0)
    for offset in (0, 1, 2):
        assert offsets.receive(offset)
        offsets.done(offset)
    assert offsets.prefix == 3


def test_the_first_open_offset_is_committed_when_a_later_one_is_done() -> None:
    offsets = PartitionOffsets(5)
    for offset in (5, 6, 7):
        offsets.receive(offset)
    offsets.done(5)
    offsets.done(7)
    assert offsets.prefix == 6


def test_holes_are_no_offsets_to_wait_for_when_a_topic_is_compacted() -> None:
    offsets = PartitionOffsets(0)
    for offset in (3, 9):
        offsets.receive(offset)
        offsets.done(offset)
    assert offsets.prefix == 10


def test_the_minimum_failed_offset_is_sought_when_two_of_a_partition_fail() -> None:
    offsets = PartitionOffsets(0)
    for offset in range(5):
        offsets.receive(offset)
    for offset in (0, 2, 4):
        offsets.done(offset)
    assert offsets.rewind() == 1
    assert [offset for offset in range(1, 5) if offsets.receive(offset)] == [1, 3]


def test_records_under_way_are_settled_before_a_position_out_of_range_is_left() -> None:
    class Start:
        def within_range(self, where: Partition, offset: int) -> int:
            return 90

    unused: Any = None
    start: Any = Start()
    rebalance = Rebalance(unused, start, identity=unused, revoke_grace=0)
    owned = rebalance.assignment.add(("t", 0), 5)
    owned.offsets.receive(5)
    rebalance.out_of_range(owned)
    assert (owned.offsets.prefix, owned.seek_to) == (5, 6)
    owned.offsets.done(5)
    rebalance.out_of_range(owned)
    assert (owned.offsets.prefix, owned.seek_to) == (90, 90)


def test_a_record_is_left_out_when_two_polls_deliver_it() -> None:
    offsets = PartitionOffsets(0)
    assert offsets.receive(0)
    assert not offsets.receive(0)


END = 63
"""Behind the last record stand markers."""


class AnyOrder(RuleBasedStateMachine):
    """A log with holes, delivered, done and rewound in any order: no offset below the prefix is ever open."""

    log = tuple(o for o in range(60) if o % 7 not in (3, 4))

    def __init__(self) -> None:
        super().__init__()
        self.offsets = PartitionOffsets(0)
        self.position = 0
        self.open: list[int] = []
        self.finished: set[int] = set()
        self.highest = 0

    @precondition(lambda self: self.position <= self.log[-1])
    @rule()
    def poll(self) -> None:
        offset = next(o for o in self.log if o >= self.position)
        self.position = offset + 1
        if self.offsets.receive(offset):
            assert offset not in self.finished
            self.open.append(offset)

    @precondition(lambda self: self.position > self.log[-1])
    @rule()
    def reach_the_end(self) -> None:
        self.offsets.reached_end(END)
        assert self.offsets.prefix == min(self.open, default=END)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.open))
        self.open.remove(offset)
        self.finished.add(offset)
        self.offsets.done(offset)

    @precondition(lambda self: self.open)
    @rule()
    def fail(self) -> None:
        target = self.offsets.rewind()
        assert target == min(self.open)
        self.position = target
        self.open.clear()

    @rule()
    def poll_again(self) -> None:
        if self.position:
            assert not self.offsets.receive(self.position - 1)

    @invariant()
    def nothing_unfinished_is_below_the_prefix(self) -> None:
        assert {o for o in self.log if o < self.offsets.prefix} <= self.finished

    @invariant()
    def the_prefix_never_goes_back(self) -> None:
        assert self.offsets.prefix >= self.highest
        self.highest = self.offsets.prefix


TestAnyOrder = AnyOrder.TestCase
