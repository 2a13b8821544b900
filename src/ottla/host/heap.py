"""One heap of the C library for all threads of a node.

glibc gives nearly every thread its own heap, and a heap keeps freed memory: up to two megabytes in each worker that has
read a large piece of a file once. With a dozen workers the memory of a node would grow for hours, although no object is
leaked. The threads of a node rarely allocate at the same time (the interpreter's lock), so one heap is as fast, and
memory that one thread has freed is reused by other threads.
"""

from __future__ import annotations

import sys

__all__ = ["share_one_heap"]

_ARENAS_MAX = -8


def share_one_heap() -> bool:
    """Must be called before the first thread starts. Has no effect, and returns False, without glibc."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(set_option(_ARENAS_MAX, 1))
