"""The README's own example, done as it says."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

from tidemark.cli.app import main
from tidemark.config.reading.load import load_settings

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_stream_has_no_fault_and_its_table_lies_in_its_folder(
    tmp_path: Path,
) -> None:
    block = re.search(
        r"^    mkdir -p orders\n.*?^    export ", README.read_text(encoding="utf-8"), re.M | re.S
    )
    assert block is not None
    script = textwrap.dedent(block[0].rsplit("    export", 1)[0])
    subprocess.run(["bash", "-eu"], input=script, text=True, cwd=tmp_path, check=True)
    configuration = tmp_path / "orders" / "tidemark.yml"
    assert main(["check", "--quick", "--config", str(configuration)]) == 0
    (table,) = load_settings(configuration).tables("orders").values()
    assert str(table) == str(tmp_path / "orders" / "lake" / "orders")
