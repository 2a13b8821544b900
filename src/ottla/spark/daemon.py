"""The process from which Spark's Python workers are forked: Spark's own daemon with preloaded modules.

Spark's own daemon loads nothing before the fork, so every worker loads pyarrow, pandas and Spark's Python itself: more
than half a second of CPU time, and fifty megabytes of private memory. Each kind of worker has a daemon of its own: that
of tasks (`pyspark.worker`), and those for the steps of planning a read or a write. (The helper process that plans a
stream is not forked.)

Preloaded modules must not hold a lock across the fork. The one thread that these imports start belongs to Arrow's
allocator, which handles forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["main"]

_PRELOADED = (
    "pyarrow",
    "pandas",
    "pyspark.worker",
    "ottla.spark.datasource",
    "ottla.spark.source.batch",
    "ottla.spark.source.stream",
    "ottla.spark.sink",
)


def main() -> None:
    """Spark calls `python -m ottla.spark.daemon <module of the worker> ...`."""
    # OpenBLAS would start a thread for each core at import, for matrices that no worker uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module = sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker"
    preload(_PRELOADED if module == "pyspark.worker" else (module, "ottla.spark.datasource"))
    from pyspark import daemon

    daemon.worker = frozen_after_first(daemon.worker)
    daemon.manager()


def frozen_after_first(serve: Callable[..., int]) -> Callable[..., int]:
    """Spark's function that serves one task, for a process that serves many.

    Spark collects garbage after every task: ten milliseconds of CPU time for everything that the first task imported,
    in each of the four workers of a micro-batch. Objects that exist after the first task stay, and are not
    examined again.
    """
    is_frozen = False

    def worker(*arguments: Any, **options: Any) -> int:
        nonlocal is_frozen
        try:
            code = int(serve(*arguments, **options))
        except BrokenPipeError:
            # Spark closed the connection while the worker ended, because the query was stopped.
            return 1
        if not is_frozen:
            is_frozen = True
            gc.collect()
            gc.freeze()
        return code

    return worker


def preload(names: Iterable[str]) -> None:
    """Imports the modules that workers use. Missing modules are ignored here."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    # Garbage collection would touch these objects and copy their pages into every worker.
    gc.freeze()


if __name__ == "__main__":
    main()
