"""Reserves disk blocks beyond the end of a growing file, without changing its length.

Allocating blocks for every write takes a quarter of the time of a large write; allocating many at once costs hardly
more than allocating one. Only Linux can do this (`fallocate` that keeps the size). Python has no function for it, so it
is called through `ctypes`, which is imported when the first file becomes large.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

__all__ = ["GROWN_BYTES", "NO_END", "STEP_BYTES", "STEP_BYTES_MAX", "room_for"]

# A file of this size is likely to keep growing; smaller files reserve nothing.
GROWN_BYTES = 8 * 1024 * 1024

# The reservation grows with the file: an eighth of its size, within these bounds. Thousands of files may grow at the
# same time, and reserved room is not available to other files.
STEP_BYTES = 1024 * 1024
STEP_BYTES_MAX = 16 * 1024 * 1024
_STEP_SHIFT = 3

NO_END = sys.maxsize

_KEEP_SIZE = 1


def room_for(descriptor: int, end: int) -> int:
    """Reserves room beyond `end`; returns the position up to which no further call is needed.

    Never fails: a file system without support is not tried again, and the next write reports a full disk.
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
    call: Callable[[int, int, int, int], int] = function
    return call
