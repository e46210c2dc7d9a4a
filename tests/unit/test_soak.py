"""What a soak answers, and what it draws from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tools.soak import soak as soak_module
from tools.soak.faults import FAULTS
from tools.soak.writer import spare_configuration

from tidemark.dev.demo.audit import AuditResult
from tidemark.dev.demo.configuration import DemoFiles


def books(*, lost: int = 0, stops: tuple[str, ...] = ()) -> soak_module.Books:
    audit_result = AuditResult(
        produced=10,
        landed=9 - lost,
        rejected=1,
        skipped=0,
        lost=lost,
        duplicated=0,
        misjudged=0,
        altered=0,
        published_again=0,
    )
    return soak_module.Books({"RESTORE": [1.0, 3.0]}, list(stops), audit_result)


def no_recovery() -> soak_module.Books:
    raise soak_module.NoRecovery("after RESTORE it did not catch up within 600 s")


@pytest.mark.parametrize(
    ("ends", "code", "line"),
    [
        (books, 0, "lost 0, duplicated 0"),
        (lambda: books(lost=1), 1, "lost 1, duplicated 0"),
        (lambda: books(stops=("RESTORE: it gave up",)), 1, "stopped without a reason: RESTORE"),
        (no_recovery, 1, "did not catch up"),
    ],
)
def test_the_exit_code_is_0_only_when_the_audit_is_sound_and_no_writer_stopped(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ends: Callable[[], soak_module.Books],
    code: int,
    line: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", "0", "--seed", "7"])
    monkeypatch.setattr(soak_module, "soak", lambda *_, **__: ends())
    folders: list[str] = []
    made = soak_module.tempfile.mkdtemp
    monkeypatch.setattr(
        soak_module.tempfile, "mkdtemp", lambda **options: folders.append(made(**options)) or folders[0]
    )
    assert soak_module.main() == code
    assert line in capsys.readouterr().out
    # What a failure is looked into with stays.
    assert Path(folders[0]).exists() == (code != 0)
    soak_module.shutil.rmtree(folders[0], ignore_errors=True)


def test_the_default_seed_draws_each_fault_when_the_soak_is_long() -> None:
    chance = Random(1)
    assert {chance.choice(FAULTS).name for _ in range(200)} == {fault.name for fault in FAULTS}


def test_a_writer_elsewhere_has_a_checkpoint_and_a_state_of_its_own(tmp_path: Path) -> None:
    files = DemoFiles(tmp_path)
    files.configuration.write_text("checkpoint-root: checkpoints\nstate-dir: state\nkafka: {}\n")
    text = spare_configuration(files, name="elsewhere").read_text()
    assert text == "checkpoint-root: checkpoints-elsewhere\nstate-dir: state-elsewhere\nkafka: {}\n"
