"""Figures of the operating system about this process, read on demand."""

from __future__ import annotations

import gc
import os
import resource
import threading
import time

__all__ = ["ProcessFigures", "START_TIME_SECONDS", "process_figures"]

# Approximately the start of the process, which imports this module early.
START_TIME_SECONDS = time.time()

_STATUS = "/proc/self/statm"
_DESCRIPTORS = "/proc/self/fd"
_KIB = 1024


class ProcessFigures:
    __slots__ = (
        "cpu_seconds",
        "garbage_collections",
        "open_files",
        "open_files_max",
        "resident_bytes",
        "threads",
        "virtual_bytes",
    )

    def __init__(self) -> None:
        times = os.times()
        self.cpu_seconds = times.user + times.system
        self.virtual_bytes, self.resident_bytes = _memory()
        self.open_files = _open_files()
        self.open_files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.threads = threading.active_count()
        self.garbage_collections = tuple(generation["collections"] for generation in gc.get_stats())


def process_figures() -> ProcessFigures:
    return ProcessFigures()


def _memory() -> tuple[int, int]:
    """(virtual, resident) bytes; without /proc, the peak of resident bytes."""
    try:
        with open(_STATUS, encoding="ascii") as file:
            pages = file.read().split()
    except OSError:
        return 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()


def _open_files() -> int:
    try:
        # The descriptor of the listing itself is not counted.
        return len(os.listdir(_DESCRIPTORS)) - 1
    except OSError:
        return 0
