"""Where a reader of a DLQ topic goes on after retention, damage, or a topic that lost its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tidemark.contract.marks import Marks
from tidemark.dead_letters.dlq_table.reader_checkpoint import reader_checkpoint
from tidemark.platform.files import LocalFiles

NAME = "topicid-tableid"


def made(folder: Path, name: str, *, at: int | None = None, initial: int = 0) -> Path:
    """A checkpoint that has committed a batch up to `at`, or has planned none."""
    path = folder / name
    files = {"metadata": '{"id":"6b299bcc"}', "sources/0/0": f'v1\n{{"dlq":{{"0":{initial}}}}}'}
    if at is not None:
        files |= {
            "offsets/0": f'v1\n{{"batchTimestampMs":1}}\n{{"dlq":{{"0":{at}}}}}',
            "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        }
    for file, text in files.items():
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text(text)
    return path


def chosen(folder: Path, *, earliest: int = 0, end: int = 100) -> str:
    path = reader_checkpoint(
        LocalFiles(),
        str(folder),
        NAME,
        "dlq",
        earliest=Marks({0: earliest}),
        ends=Marks({0: end}),
        stream="events",
    )
    return Path(path).name


def test_a_reader_begins_under_its_own_name_and_goes_on_there(tmp_path: Path) -> None:
    assert chosen(tmp_path / "nowhere") == NAME
    made(tmp_path, NAME, at=10)
    made(tmp_path, "another-7", at=10)
    assert chosen(tmp_path, earliest=10) == NAME


def test_lost_offsets_are_logged_and_the_rest_is_read_when_retention_passed_a_reader(tmp_path: Path) -> None:
    made(tmp_path, NAME, at=10)
    with capture_logs() as lines:
        assert chosen(tmp_path, earliest=25) == f"{NAME}-2"
    lost = [line for line in lines if line["log_level"] == "error"]
    assert [(line["records"], line["ranges"]) for line in lost] == [(15, "partition 0: offsets 10 to 24")]
    made(tmp_path, f"{NAME}-2", at=30)
    assert chosen(tmp_path, earliest=25) == f"{NAME}-2"
    assert chosen(tmp_path, earliest=31) == f"{NAME}-3"


@pytest.mark.parametrize("initial", [0, 25])
def test_a_reader_that_has_read_nothing_yet_counts_from_where_it_began(tmp_path: Path, initial: int) -> None:
    made(tmp_path, NAME, initial=initial)
    assert chosen(tmp_path, earliest=25) == (NAME if initial == 25 else f"{NAME}-2")


def test_a_partition_that_is_new_to_the_reader_may_have_lost_its_beginning(tmp_path: Path) -> None:
    made(tmp_path, NAME, at=10)
    path = reader_checkpoint(
        LocalFiles(),
        str(tmp_path),
        NAME,
        "dlq",
        earliest=Marks({0: 10, 1: 3}),
        ends=Marks({0: 100, 1: 100}),
        stream="events",
    )
    assert Path(path).name == f"{NAME}-2"


def test_all_is_read_again_when_the_topic_ends_before_the_reader(tmp_path: Path) -> None:
    made(tmp_path, NAME, at=10)
    assert chosen(tmp_path, end=9) == f"{NAME}-2"


@pytest.mark.parametrize("file", ["metadata", "offsets/0", "commits/0", "sources/0/0"])
def test_all_is_read_again_when_a_file_of_the_checkpoint_is_damaged(tmp_path: Path, file: str) -> None:
    (made(tmp_path, NAME, at=10) / file).write_text("")
    assert chosen(tmp_path) == f"{NAME}-2"


def test_a_folder_in_which_nothing_began_is_used(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    assert chosen(tmp_path, earliest=25) == NAME
