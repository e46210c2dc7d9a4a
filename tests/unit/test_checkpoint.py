"""What can be reported from a checkpoint's files, whole and damaged. What is read is what Spark 4.2 wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.contract.marks import Marks
from tidemark.platform.files import LocalFiles
from tidemark.source.checkpoint import Checkpoint, Position

METADATA = '{"id":"6b299bcc-38f7-4547-b32e-f887265f8fdb"}'
OFFSETS = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795862163848,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'
    '{"orders":{"0":%d,"1":31}}'
)
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
INITIAL = '\x00v1\n{"orders":{"0":3,"1":0}}'
FILES = {
    "metadata": METADATA,
    "offsets/0": OFFSETS % 10,
    "offsets/1": OFFSETS % 20,
    "commits/0": COMMIT,
    "sources/0/0": INITIAL,
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """One batch is committed, the next one planned."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Checkpoint(LocalFiles(), str(tmp_path), "orders")


def usable(checkpoint: Checkpoint) -> bool:
    return checkpoint.position() is not None and checkpoint.initial() is not None


def test_a_whole_checkpoint_stands_at_its_newest_committed_batch(checkpoint: Checkpoint) -> None:
    assert checkpoint.position() == Position(0, Marks({0: 10, 1: 31}))
    assert checkpoint.initial() == Marks({0: 3, 1: 0})
    assert checkpoint.planned(1) == Marks({0: 20, 1: 31})


@pytest.mark.guarantee(
    "bad day: checkpoint: cut off",
    "fault: A file of the checkpoint is cut off or damaged → A fresh one starts from the marks",
)
@pytest.mark.parametrize("name", FILES)
def test_a_checkpoint_is_not_used_wherever_one_of_its_files_was_cut_off(
    checkpoint: Checkpoint, name: str
) -> None:
    """Spark would fail on it at every start. Cut off behind its version a commit is one all the same."""
    text = FILES[name]
    for length in range(len(text)):
        Path(checkpoint.path, name).write_text(text[:length])
        assert not usable(checkpoint) or (name.startswith("commits") and text[:length].strip() == "v1"), (
            length
        )


DAMAGES: dict[str, Callable[[Path], object]] = {
    "metadata is gone": lambda p: (p / "metadata").unlink(),
    "metadata is another document": lambda p: (p / "metadata").write_text('"id"'),
    "zeros, as after a power cut": lambda p: (p / "offsets/1").write_text("\x00" * 200),
    "no UTF-8": lambda p: (p / "offsets/1").write_bytes(b"v1\n\xff\xfe"),
    "offsets of the committed batch are gone": lambda p: (p / "offsets/0").unlink(),
    "the first line of offsets is damaged": lambda p: (p / "offsets/1").write_text(
        FILES["offsets/1"].replace('"conf":{', '"conf":')
    ),
    "offsets of another topic": lambda p: (p / "offsets/1").write_text(
        FILES["offsets/1"].replace("orders", "others")
    ),
    "two batches are planned": lambda p: (p / "offsets/2").write_text(FILES["offsets/1"]),
    "a checksum without its file": lambda p: (p / "commits/.1.crc").write_bytes(b"crc"),
    "the first offsets are damaged": lambda p: (p / "sources/0/0").write_text('v1\n{"orders":'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_checkpoint_is_not_used_when(checkpoint: Checkpoint, damage: str) -> None:
    DAMAGES[damage](Path(checkpoint.path))
    assert not usable(checkpoint)
