"""The clock of workers; the simulator replaces it."""

from __future__ import annotations

import time

__all__ = ["wall_clock_ms"]


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
