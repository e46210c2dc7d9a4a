"""The main job on a real broker and a real table: every record once, in the table or the DLQ."""

from __future__ import annotations

from collections.abc import Callable

from tests.stream_under_test import BAD, StreamUnderTest, good

Make = Callable[..., StreamUnderTest]


def test_good_records_land_and_bad_ones_are_dead_letters_when_a_topic_holds_both(stream: Make) -> None:
    events = stream(partitions=2)
    events.produce(*[good(i) for i in range(20)], BAD, None, b"")
    events.land()
    assert events.ids() == list(range(20))
    letters = events.dead_letters()
    assert sorted((x["category"], x["value"]) for x in letters) == [
        ("EMPTY_PAYLOAD", b""),
        ("TYPE_MISMATCH", BAD),
    ]
    (report,) = events.reports
    assert (report.read, report.accepted, report.rejected, report.skipped, report.duplicate) == (
        23,
        20,
        2,
        1,
        0,
    )


def test_nothing_lands_twice_when_the_stream_runs_again(stream: Make) -> None:
    events = stream()
    events.produce(*[good(i) for i in range(5)])
    events.land()
    events.produce(*[good(i) for i in range(5, 8)], BAD)
    events.land()
    events.land()
    assert events.ids() == list(range(8))
    assert len(events.dead_letters()) == 1


def test_the_stream_resumes_from_the_marks_when_the_checkpoint_is_gone(stream: Make) -> None:
    import shutil

    events = stream(partitions=3)
    events.produce(*[good(i) for i in range(30)], BAD)
    events.land()
    shutil.rmtree(events.folder / "checkpoints")
    events.produce(*[good(i) for i in range(30, 40)], BAD)
    events.land()
    assert events.ids() == list(range(40))
    assert len(events.accounted()) == 42
