"""Room on disk for what a file is about to become, without a word of it in the file's length.

A file system that finds a block for every write, one after another, spends a quarter of a large write's time on it;
finding many at once costs hardly more than finding one. Linux alone knows how (`fallocate` that keeps the size), and
Python does not call it, so it is called by way of `ctypes`, which is loaded when the first file has become large.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

__all__ = ["GROWN_BYTES", "NO_END", "STEP_BYTES", "STEP_BYTES_MAX", "room_for"]

# A file that has become as large as this goes on growing, likely; smaller ones keep no room for themselves.
GROWN_BYTES = 8 * 1024 * 1024

# So much at once, and the more the larger the file has become: an eighth of it. Thousands of files may grow at the same
# time, and what they keep is room that others cannot have.
STEP_BYTES = 1024 * 1024
STEP_BYTES_MAX = 16 * 1024 * 1024
_STEP_SHIFT = 3

NO_END = sys.maxsize

_KEEP_SIZE = 1


def room_for(descriptor: int, end: int) -> int:
    """Reserves room up to some place beyond `end`, and tells up to where nobody needs to ask again.

    Nothing fails here: a file system that cannot do this is not asked again, and a disk that has no room left says so
    when something is written.
    """
    fallocate = _fallocate()
    step = min(max(end >> _STEP_SHIFT, STEP_BYTES), STEP_BYTES_MAX)
    if fallocate is None or fallocate(descriptor, _KEEP_SIZE, end, step) != 0:
        return NO_END
    return end + step


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        function = ctypes.CDLL(None).fallocate64
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    found: Callable[[int, int, int, int], int] = function
    return found
