"""The memory of large requests that are not complete or may not be started yet, over all connections of a node.

A connection may hold 64 KiB of an incomplete request without being counted. A larger request is counted with the memory
that it occupies, which grows with the bytes that have arrived and not with the size that the client has announced.

While the sum is below a threshold, requests grow freely. Beyond the threshold, a request that wants to grow waits, and
its connection is not read, unless the memory for its whole remainder is left below the limit. The distance between
threshold and limit is the size of the largest request, so that the waiting requests cannot all wait for each other:
room for one of them to be completed is always left. Requests with the smallest remainder go first.

A client could stop sending, and keep its share. So while requests wait, the driver calls `close_slow_senders` at
intervals. It ends the connections that hold memory and have not sent `PROGRESS_BYTES` since the call before. That
includes connections with a complete request behind an unanswered one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["CHECK_SECONDS", "PROGRESS_BYTES", "UNCOUNTED_BYTES", "MemoryHolder", "RequestMemory"]

# The bytes that a connection may hold without being counted: the first buffer of an incomplete request.
UNCOUNTED_BYTES = 64 * 1024

# While requests wait for memory, a client that holds some has to send this much in each interval.
CHECK_SECONDS = 5.0
PROGRESS_BYTES = 64 * 1024

# The limit, unless it is configured: twice the largest request, and at least this much.
LIMIT_BYTES_MIN = 256 * 1024 * 1024


class MemoryHolder(Protocol):
    """A connection with a large request."""

    # Memory that is counted for the request.
    counted_bytes: int

    @property
    def request_bytes(self) -> int:
        """The size of the request."""

    @property
    def received_bytes(self) -> int:
        """The bytes of the request that have arrived."""

    def memory_available(self) -> None:
        """The request that had to wait may grow."""

    def give_up(self, reason: str) -> None:
        """Ends the connection."""


class RequestMemory:
    """Shared by all connections of a node."""

    __slots__ = ("_holders", "_threshold_bytes", "_waiting", "limit_bytes", "on_wait", "used_bytes")

    def __init__(self, *, request_bytes_max: int, limit_bytes: int = -1) -> None:
        if limit_bytes <= 0:
            limit_bytes = max(LIMIT_BYTES_MIN, 2 * request_bytes_max)
        self.limit_bytes = max(limit_bytes, request_bytes_max)
        self._threshold_bytes = self.limit_bytes - request_bytes_max
        self.used_bytes = 0
        # Holder -> bytes that it had received at the last check; None before the first check.
        self._holders: dict[MemoryHolder, int | None] = {}
        # In the order of their arrival.
        self._waiting: dict[MemoryHolder, None] = {}
        # Called when a request has to wait while no other request waits.
        self.on_wait: Callable[[], object] | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, holder: MemoryHolder, wanted_bytes: int) -> bool:
        """Counts `wanted_bytes` for the holder's request, or all of its size. Returns False if there is no room."""
        counted = holder.counted_bytes
        if counted >= wanted_bytes:
            return True
        used = self.used_bytes - counted + wanted_bytes
        if used > self._threshold_bytes:
            wanted_bytes = holder.request_bytes
            used = self.used_bytes - counted + wanted_bytes
            if used > self.limit_bytes:
                return False
        if not counted:
            self._holders[holder] = None
        self.used_bytes = used
        holder.counted_bytes = wanted_bytes
        return True

    def wait(self, holder: MemoryHolder) -> None:
        """`memory_available` is called when there may be room."""
        self._waiting[holder] = None
        if len(self._waiting) == 1 and self.on_wait is not None:
            self.on_wait()

    def hold(self, holder: MemoryHolder) -> None:
        """Counts a complete request that may not be started yet."""
        self.used_bytes += holder.request_bytes
        holder.counted_bytes = holder.request_bytes
        self._holders[holder] = None

    def release(self, holder: MemoryHolder) -> None:
        """The request is started, or its connection has ended."""
        waiting = self._waiting
        if waiting:
            waiting.pop(holder, None)
        counted = holder.counted_bytes
        if counted:
            self.used_bytes -= counted
            holder.counted_bytes = 0
            del self._holders[holder]
            if waiting:
                self._wake()

    def close_slow_senders(self) -> None:
        """While requests wait: ends the connections that keep memory from them without sending."""
        for holder, before in list(self._holders.items()):
            if holder in self._waiting or holder not in self._holders:
                continue
            if before is not None and holder.received_bytes - before < PROGRESS_BYTES:
                holder.give_up("it sent its request too slowly while other requests waited for memory")
            else:
                self._holders[holder] = holder.received_bytes

    def _wake(self) -> None:
        """Lets waiting requests continue, the smallest remainder first, until there is no room for the next request."""
        for holder in sorted(self._waiting, key=lambda waiting: waiting.request_bytes - waiting.received_bytes):
            self._waiting.pop(holder, None)
            holder.memory_available()
            if holder in self._waiting:
                return
