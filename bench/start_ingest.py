"""`tidemark ingest` that reports when its imports are done, its JVM runs and its session is there, for
`bench/start_timeline.py`.

python bench/start_ingest.py CONFIGURATION. It calls the platform's two functions for JVM and session itself and
reports around them; nothing else is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from tidemark.cli.app import main as command
from tidemark.platform import open_session, session


def _reported(launch: Callable[[Mapping[str, str]], None]) -> Callable[[Mapping[str, str]], None]:
    def launched(conf: Mapping[str, str]) -> None:
        report("imports are done")
        launch(conf)
        report("JVM runs")

    return launched


def _talking(opened: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def session_for(settings: Any) -> Any:
        spark = opened(settings)
        report("session is there")
        # What follows is seen in Spark's own lines.
        spark.sparkContext.setLogLevel("INFO")
        return spark

    return session_for


def report(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    session.launch_jvm = _reported(session.launch_jvm)
    open_session.session_for = _talking(open_session.session_for)
    sys.exit(command(["ingest", "--config", sys.argv[1]]))
