"""Starts the driver's JVM: in any locale and temporary folder, without reacting to SIGTERM, without keys on its
command line.
"""

from __future__ import annotations

import importlib
import locale
import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog

from tidemark.contract.errors import TidemarkError
from tidemark.platform.jvm.java import find_java

log = structlog.get_logger(__name__)

NEEDED_AT_LAUNCH = ("spark.jars", "spark.master", "spark.driver.")
"""Settings that `spark-submit` itself reads. All others are set when the JVM runs: every user of the machine can
read its command line, and the settings of S3 hold keys.
"""
UTF_8 = "C.UTF-8"


class JvmUnfit(TidemarkError):
    """No JVM of Spark runs in this environment."""

    condition = "TIDEMARK_JVM"


def launch_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM of this process's first session, which sets all other settings.

    The JVM ignores SIGTERM, which service managers send to all processes at once: it has to run until the batch is
    complete, and ends with this process in any case.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is not None:
        return
    launched = SparkConf(loadDefaults=False)
    launched.setAll([(name, value) for name, value in conf.items() if name.startswith(NEEDED_AT_LAUNCH)])
    launcher: Any = importlib.import_module("pyspark.java_gateway")
    # pyspark has no option for it; replaced only while the JVM is launched.
    popen, launcher.Popen = launcher.Popen, _ignoring_sigterm
    try:
        with _utf_8():
            SparkContext._ensure_initialized(conf=launched)
    finally:
        launcher.Popen = popen
    encoding = SparkContext.getSystemProperty("sun.jnu.encoding") or "unknown"
    if not is_utf_8(encoding):
        log.warning("Java cannot name files outside of its encoding", encoding=encoding, hint=UTF_8_HINT)


def user_name() -> str:
    """Raises JvmUnfit for a user without a name: Hadoop, which reads and writes all files, refuses it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise JvmUnfit(
            f"user {os.getuid()} has no entry in /etc/passwd, and Hadoop refuses a user without a name",
            hint="run as a user of the image, or add an entry when the container starts: "
            'echo "tidemark:x:$(id -u):$(id -g)::/tmp:/bin/sh" >> /etc/passwd',
        ) from None


def temporary_folder() -> str:
    """`TMPDIR`, else /tmp. Raises JvmUnfit where none can be written."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise JvmUnfit(
            f"there is no folder for temporary files: {error.strerror}",
            hint="set TMPDIR to a folder that this user may write",
        ) from error


def temporary_option() -> str:
    """Java uses /tmp, whatever `TMPDIR` is."""
    return f"-Djava.io.tmpdir={temporary_folder()}"


UTF_8_HINT = f"install the locale {UTF_8}, or set LC_ALL to a UTF-8 locale that `locale -a` lists"


def file_name_encoding() -> str:
    """The encoding in which a JVM writes file names, as reported by one."""
    with _utf_8():
        shown = subprocess.run(
            [str(find_java().executable), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
    lines = (line.partition(" = ") for line in (shown.stderr + shown.stdout).splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == "sun.jnu.encoding"), "unknown")


def is_utf_8(encoding: str) -> bool:
    return encoding.upper().replace("-", "") == "UTF8"


@contextmanager
def _utf_8() -> Iterator[None]:
    """Processes started in this block write file names as UTF-8, as Python does even in the locale C."""
    before = os.environ.get("LC_ALL")
    named = next((os.environ[n] for n in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(n)), "C")
    if not (is_utf_8(named.partition(".")[2]) and is_utf_8(locale.getencoding())):
        os.environ["LC_ALL"] = UTF_8
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("LC_ALL", None)
        else:
            os.environ["LC_ALL"] = before


def _ignoring_sigterm(command: list[str], *, preexec_fn: Any = None, **options: Any) -> subprocess.Popen[Any]:
    """A process that ignores SIGTERM, also after an `exec`."""

    def prepare() -> None:
        if preexec_fn is not None:
            preexec_fn()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return subprocess.Popen(command, preexec_fn=prepare, **options)
