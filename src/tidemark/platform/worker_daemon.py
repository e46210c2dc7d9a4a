"""`python -m tidemark.platform.worker_daemon pyspark.worker`: pyspark's daemon, which has imported what decoding needs.

The daemon forks Spark's Python workers. What it has imported they share, where each would import it for itself: half a
CPU second and 50 MB a worker, and Spark ends workers that a minute had no work for.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tidemark.platform.spark_conf import is_cluster

_SETTING = "spark.python.daemon.module"
_IMPORTED = ("pyspark.worker", "tidemark.transform.decode.udf")
_ENVIRONMENT = {
    # NumPy's BLAS and Arrow's jemalloc start threads as they are imported.
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    # Of what a batch took, Arrow's own allocator keeps half as much again.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def settings(master: str) -> dict[str, str]:
    """What makes Spark start this daemon, once the JVM runs. Nothing where another one is configured, where
    tasks run on other machines or `PYSPARK_PYTHON` is another Python, which may lack this module, and outside of
    Linux: libraries may not survive a fork there, and threads cannot be counted.
    """
    from pyspark import SparkContext

    if is_cluster(master) or sys.platform != "linux" or not _in_this_python():
        return {}
    if SparkContext.getSystemProperty(_SETTING):
        return {}
    return {_SETTING: "tidemark.platform.worker_daemon"}


def _in_this_python() -> bool:
    python = shutil.which(os.environ.get("PYSPARK_PYTHON", sys.executable))
    # Its folder: `python3` is another name of the same, while the Pythons of two environments are one file.
    return python is not None and Path(python).parent == Path(sys.executable).parent


def main() -> None:
    # Other modules than this one have daemons of their own, which do not decode.
    if sys.argv[1:] == ["pyspark.worker"]:
        _import()
    import_module("pyspark.daemon").manager()


def _import() -> None:
    for variable, value in _ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    # What fails here fails in the workers too, which report it to their task.
    with suppress(Exception):
        for module in _IMPORTED:
            import_module(module)
        # Arrow imports pandas, where it is installed, with the first array that it makes.
        import_module("pyarrow").array([0])
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        # A fork takes one thread along: what another has locked stays locked.
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    if numbers := sys.modules.get("numpy.random"):
        # The workers would all draw the same ones.
        os.register_at_fork(after_in_child=numbers.seed)
    gc.collect()
    # A collection writes to all objects that it looks at, and so copies their pages.
    gc.freeze()


if __name__ == "__main__":
    main()
