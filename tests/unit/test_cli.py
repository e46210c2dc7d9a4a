"""The root command: help, errors, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from pkgutil import walk_packages

import pytest

from tidemark.cli import app as cli
from tidemark.config.reading.faults import ConfigurationFaults, Fault
from tidemark.contract.errors import Fenced, RetriableError, UsageError


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


def test_help_lists_every_command_that_is_there_and_imports_none(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tidemark.cli.app import main\n"
        "code = main(['--help'])\n"
        "heavy = [m for m in sys.modules if m.split('.')[0] in ('pyspark', 'delta', 'confluent_kafka')]\n"
        "packages = {'app', 'streams', 'dead_letters'}\n"
        "ours = [m.removeprefix('tidemark.cli.') for m in sys.modules if m.startswith('tidemark.cli.')]\n"
        "loaded = [m for m in ours if m not in packages]\n"
        "print(code, heavy, loaded)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 [] []"
    for entry in cli.COMMANDS:
        assert entry.help[:20] in done.stdout


@pytest.mark.parametrize("entry", cli.COMMANDS, ids=lambda e: e.name)
def test_a_command_that_is_listed_loads_and_explains_itself(
    entry: cli.Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(entry.name, "--help") == 0
    assert f"tidemark {entry.name}" in capsys.readouterr().out


def test_every_module_of_a_command_is_listed() -> None:
    prefix = "tidemark.cli."
    names = {m.name.removeprefix(prefix) for m in walk_packages([str(Path(cli.__file__).parent)], prefix)}
    commands = {name for name in names if hasattr(cli.importlib.import_module(prefix + name), "app")}
    assert commands - {"app"} == {entry.module for entry in cli.COMMANDS}


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("tidemark 0.")


def test_wrong_use_exits_with_2_and_names_the_command_that_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("chekc") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "'check'" in captured.err
    assert run("check", "--nonsense") == 2


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (
            UsageError("no stream is named x", "there is y"),
            2,
            ["error: no stream is named x [TIDEMARK_USAGE]", "hint: there is y"],
        ),
        (Fenced("another writer committed"), 1, ["error: another writer committed [TIDEMARK_FENCED]"]),
        (
            RetriableError("broker is unavailable", retry_after=3),
            1,
            ["error: broker is unavailable [TIDEMARK_RETRIABLE]"],
        ),
        (
            ValueError("odd"),
            1,
            ["error: unexpected ValueError: odd", "hint: run it again with --debug for the traceback"],
        ),
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark"),
            1,
            [
                "error: this command needs Spark, which is not installed here",
                "hint: pip install 'pyspark==4.2.0' 'delta-spark==4.4.0'",
            ],
        ),
        (
            ConfigurationFaults([Fault("t.yml", "kafka", 3, "is missing", "add it")]),
            2,
            [
                "error: 1 fault in the configuration [TIDEMARK_CONFIG]",
                "  t.yml:3  kafka: is missing",
                "    hint: add it",
            ],
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_is_reported_with_its_hint_and_without_a_traceback(
    error: Exception, code: int, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.render_error(error) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == lines


def test_the_traceback_is_reported_when_asked_for_and_secrets_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise ValueError("cannot reach http://app:hunter2@store/")

    with pytest.raises(ValueError, match="cannot reach") as raised:
        fail()
    assert cli.render_error(raised.value, debug=True) == 1
    text = capsys.readouterr().err
    assert "Traceback (most recent call last)" in text
    assert "hunter2" not in text


def test_debug_may_stand_behind_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--config", "nowhere.yml", "--debug") == 2
    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "error: 1 fault in the configuration" in text


def test_the_configuration_is_named_by_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "mine.yml"))
    assert run("check", "--json") == 2
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert fault["problem"] == "there is no such file"
    assert fault["file"].endswith("mine.yml")
