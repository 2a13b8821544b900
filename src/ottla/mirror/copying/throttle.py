"""Limits the bytes per second of a worker."""

from __future__ import annotations

import asyncio

__all__ = ["Throttle"]


class Throttle:
    """A bucket of one second. `bytes_per_second` 0 means no limit."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    def delay(self, size: int) -> float:
        """The seconds that so many bytes would have to wait now."""
        if self._rate <= 0:
            return 0.0
        now = asyncio.get_running_loop().time()
        return max(0.0, max(self._free_at, now - 1.0) + size / self._rate - now)

    async def pass_on(self, size: int) -> None:
        """Waits until so many bytes may pass."""
        if self._rate <= 0:
            return
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now - 1.0) + size / self._rate
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)
