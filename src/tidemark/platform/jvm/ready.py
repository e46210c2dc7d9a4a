"""`python -m tidemark.platform.jvm.ready`: checks for Java, and downloads the jars that are missing."""

from __future__ import annotations

import sys

from rich.console import Console

from tidemark.contract.errors import TidemarkError
from tidemark.platform.jvm.jars import jar_paths, tidemark_home
from tidemark.platform.jvm.java import find_java
from tidemark.platform.jvm.log_store import log_store_jar


def main() -> int:
    """0 once Spark and the broker can start here without the network, else the error's exit code."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        java = find_java()
        jars = jar_paths("spark", "broker", "s3")
        log_store_jar(jar_paths("spark", "s3"), folder=tidemark_home() / "jars")
    except TidemarkError as error:
        console.print(str(error), style="red", markup=False)
        return error.exit_code
    console.print(f"Java {java.version} in {java.home}, {len(jars)} jars in {tidemark_home() / 'jars'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
