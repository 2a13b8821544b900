"""The bytes that a connection has to send, in order: buffers, and regions of files.

A machine puts answers or requests in; a driver takes bytes off the front as the other side accepts them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ottla.model.ports import FileRegion
from ottla.wire.message import Part

__all__ = ["Outgoing"]


class Outgoing:
    __slots__ = ("has_regions", "parts", "unsent_bytes")

    def __init__(self) -> None:
        self.parts: deque[Part] = deque()
        # Bytes in memory; regions of files do not count.
        self.unsent_bytes = 0
        # True if a region may be in the queue.
        self.has_regions = False

    def put(self, parts: list[Part]) -> None:
        """Queues the parts of one frame."""
        for part in parts:
            size = len(part)
            if size == 0:
                continue
            if isinstance(part, FileRegion):
                self.has_regions = True
            else:
                self.unsent_bytes += size
            self.parts.append(part)

    def send_joined(self, send: Callable[[bytes | bytearray | memoryview], int]) -> int:
        """Sends the whole queue, which has no regions of files, with one call. Returns the number of bytes sent."""
        parts = self.parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
        assert not isinstance(data, FileRegion)
        sent = send(data)
        self.unsent_bytes -= sent
        parts.clear()
        if sent < len(data):
            parts.append(memoryview(data)[sent:])
        return sent

    def sent(self, count: int) -> None:
        """Takes `count` bytes off the front of the queue; regions among them must have been replaced by bytes."""
        self.unsent_bytes -= count
        parts = self.parts
        while count:
            first = parts[0]
            assert not isinstance(first, FileRegion)
            if count < len(first):
                parts[0] = memoryview(first)[count:]
                return
            count -= len(first)
            parts.popleft()

    def replace_first(self, data: bytes | bytearray) -> None:
        """The region at the front of the queue was read: its bytes take its place."""
        assert len(data) == len(self.parts[0])
        self.parts[0] = data
        self.unsent_bytes += len(data)

    def split_first(self, size: int) -> None:
        """Divides the region at the front of the queue into `size` bytes and the remaining bytes."""
        region = self.parts.popleft()
        assert isinstance(region, FileRegion)
        self.parts.appendleft(FileRegion(region.file, region.position + size, region.length - size))
        self.parts.appendleft(FileRegion(region.file, region.position, size))

    def clear(self) -> None:
        self.parts.clear()
        self.unsent_bytes = 0
        self.has_regions = False
