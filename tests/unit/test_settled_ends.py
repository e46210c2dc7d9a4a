"""A change of leader can move the end of a partition back for a moment: that is no shorter topic."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tidemark.config.listener import OnDataLoss, Reset
from tidemark.contract.errors import DataLoss
from tidemark.contract.marks import Marks
from tidemark.listener.member import GroupMember
from tidemark.listener.starting import StartingPoint
from tidemark.source.topics import KafkaAdmin, Topic, settled_ends

TOPIC = Topic("t", "topic-id", (0,))


class Broker:
    """Answers with one end after the other, and with the last one from then on."""

    def __init__(self, *ends: int) -> None:
        self._ends, self.asked = ends, 0

    def _next(self) -> int:
        self.asked += 1
        return self._ends[min(self.asked, len(self._ends)) - 1]

    def ends(self, topic: Topic) -> Marks:
        return Marks({0: self._next()})

    def range_of(self, where: tuple[str, int]) -> tuple[int, int]:
        return 0, self._next()


def settled(broker: Broker) -> int:
    return settled_ends(cast(KafkaAdmin, broker), TOPIC, Marks({0: 5}), sleep=lambda _: None).at(0)


def starting(broker: Broker) -> StartingPoint:
    policy: Any = {"reset": Reset.EARLIEST, "on_data_loss": OnDataLoss.STOP}
    return StartingPoint(cast(GroupMember, broker), sleep=lambda _: None, **policy)


@pytest.mark.guarantee("case: kafka-01")
def test_a_short_dip_of_the_end_is_waited_out() -> None:
    broker = Broker(3, 3, 7)
    assert settled(broker) == 7
    assert broker.asked == 3


def test_nothing_is_waited_for_when_the_end_is_where_it_was() -> None:
    broker = Broker(5)
    assert settled(broker) == 5
    assert broker.asked == 1


def test_a_topic_that_stays_shorter_is_reported_as_it_is() -> None:
    assert settled(Broker(3)) == 3


@pytest.mark.guarantee("case: kafka-01")
def test_a_listener_waits_out_a_short_dip_of_the_end() -> None:
    assert starting(Broker(3, 5)).within_range(("t", 0), 5) == 5
    with pytest.raises(DataLoss, match="ends at 3"):
        starting(Broker(3)).within_range(("t", 0), 5)
