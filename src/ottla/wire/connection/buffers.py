"""Buffers that frames are received into.

The broker writes a request's record bytes to the segment from the buffer they were received in, after it has patched
the offsets in place. So every frame has a writable buffer of its own for as long as any view of the frame is alive.

A small frame gets a new bytearray. Large buffers are reused, because fresh memory costs page faults: `LargeBuffers`
keeps a few and hands a buffer out again when no view of it is left. A bytearray with views refuses to change its size,
which is the test. Buffers need not be returned. A request that keeps its bytes for long keeps only its own buffer out
of the pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.wire.connection.request_memory import RequestMemory

__all__ = ["LARGE_SIZE_MAX", "LARGE_SIZE_MIN", "SCRATCH_SIZE", "LargeBuffers", "ReceiveBuffers", "reserve"]

# Bytes that one read takes from a socket while no large frame is being received.
SCRATCH_SIZE = 64 * 1024

# Frames up to this size are cheaper to allocate than to look for.
LARGE_SIZE_MIN = 64 * 1024

# Larger requests are rare: their buffers are not kept, and go back to the system at once (`reserve`).
LARGE_SIZE_MAX = 2 * 1024 * 1024

# Above LARGE_SIZE_MAX, the next power of two would waste too much.
_STEP = 1024 * 1024

BUFFERS_MAX = 16


class LargeBuffers:
    __slots__ = ("_buffers", "_buffers_max", "_size_max")

    def __init__(self, *, buffers_max: int = BUFFERS_MAX, size_max: int = LARGE_SIZE_MAX) -> None:
        self._buffers: list[bytearray] = []
        self._buffers_max = buffers_max
        self._size_max = size_max

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, with arbitrary contents."""
        if size < LARGE_SIZE_MIN or size > self._size_max:
            return bytearray(size)
        buffers = self._buffers
        for buffer in buffers:
            if len(buffer) >= size and _has_no_views(buffer):
                return buffer
        buffer = bytearray(_rounded(size))
        if len(buffers) >= self._buffers_max:
            # Sizes change with the workload. Dropping the oldest buffer keeps the pool from filling with small ones.
            del buffers[0]
        buffers.append(buffer)
        return buffer

    def clear(self) -> None:
        """Returns all memory to the system; called when the node has been idle for a while."""
        self._buffers.clear()


def _has_no_views(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True


def _rounded(size: int) -> int:
    """The next power of two, because the frames of a producer differ by a few bytes and should share buffers."""
    return 1 << (size - 1).bit_length() if size <= LARGE_SIZE_MAX else -(-size // _STEP) * _STEP


def reserve(size: int) -> memoryview:
    """A buffer whose memory the system provides as it is written. It goes back to the system with the last view."""
    # Imported here, because most nodes never receive such a frame.
    from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

    try:
        return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))
    except OSError:
        # The system refuses to reserve memory that it may not have.
        return memoryview(bytearray(size))


class ReceiveBuffers:
    """The receive buffers that all connections of one event loop share.

    `scratch` holds bytes only during one read: what a frame keeps is copied out of it before the next read. `memory`
    bounds the memory of incomplete frames; the asking end of a connection has none, because it asked for the bytes.
    """

    __slots__ = ("head", "large", "memory", "scratch")

    def __init__(
        self, *, buffers_max: int = BUFFERS_MAX, size_max: int = LARGE_SIZE_MAX, memory: RequestMemory | None = None
    ) -> None:
        self.memory = memory
        self.scratch = memoryview(bytearray(SCRATCH_SIZE))
        # Room for a frame's size alone: where a large frame is expected, nothing of it should have to be copied.
        self.head = self.scratch[:4]
        self.large = LargeBuffers(buffers_max=buffers_max, size_max=size_max)
