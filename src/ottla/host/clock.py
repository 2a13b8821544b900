"""The Clock port on the operating system's clocks."""

from __future__ import annotations

import time

__all__ = ["SystemClock"]


class SystemClock:
    __slots__ = ()

    # The C function itself: a Python wrapper would cost as much as the call.
    monotonic = staticmethod(time.monotonic)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
