"""`python -m tidemark.platform.jvm.ready`: checks for Java, downloads the jars that are missing, and has Java write
down the classes of Spark, with which it starts faster.
"""

from __future__ import annotations

import sys

from rich.console import Console

from tidemark.contract.errors import TidemarkError
from tidemark.platform.jvm.class_archive import archive_path, create_archive
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
    classes = archive_path(java, tidemark_home())
    if classes is not None and not classes.is_file():
        console.print("Java writes down Spark's classes, once: half a minute")
        if create_archive(java, tidemark_home()) is None:
            console.print("Java could not; Spark starts without, a few seconds slower")
    console.print(f"Java {java.version} in {java.home}, {len(jars)} jars in {tidemark_home() / 'jars'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
