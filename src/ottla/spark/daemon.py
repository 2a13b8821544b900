"""What Spark's Python workers are forked from: the same as Spark's own, with everything loaded that they will need.

Spark forks the workers of its tasks from one such process. Its own loads nothing before the fork, so that every worker
loads pyarrow, pandas and Spark's Python for itself: more than half a second of CPU time, and fifty megabytes that each
of them then has alone. (The helpers that plan a stream are processes of their own; Spark starts them in its own way.)

What is loaded here may not leave a lock held behind in the fork: the one thread that these imports start belongs to
Arrow's allocator, which knows of forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
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
    # A thread for each core, made at import, to multiply matrices that no worker has.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if len(sys.argv) < 2 or sys.argv[1] == "pyspark.worker":
        preload()
    from pyspark import daemon

    serve = daemon.worker

    def worker(*arguments: Any, **options: Any) -> int:
        try:
            return int(serve(*arguments, **options))
        except BrokenPipeError:
            # Spark hung up while the worker was saying goodbye: the query was stopped. Nothing is wrong.
            return 1

    daemon.worker = worker
    daemon.manager()


def preload() -> None:
    """What workers use; a module that is missing will be missed by whoever needs it."""
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    # Nothing of this is garbage: looking at it would only copy its pages into every worker.
    gc.freeze()


if __name__ == "__main__":
    main()
