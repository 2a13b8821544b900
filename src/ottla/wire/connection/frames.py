"""Cuts a stream of bytes into frames: four bytes of size, then that number of bytes.

A read goes into the scratch buffer that all connections of a loop share, and complete small frames are copied out of
it. A frame that is not complete gets a buffer of its own, and further reads go straight into that buffer. After a large
frame the next read asks for four bytes only, so the bytes of large frames are not copied at all.

The size of a frame is checked before memory is allocated. On the serving end a buffer starts small and grows as the
bytes arrive, so a client that announces 100 MB and sends nothing costs 64 KiB. Growing copies what has arrived, so the
buffer of a frame over 2 MiB is reserved as a whole when it grows for the first time; the system provides its memory as
it is filled. The memory of all incomplete frames of a
node is bounded (`request_memory`): where there is no room, a frame does not grow (`waits_for_room`), and its driver has
to stop reading.

A driver asks for `targets`, receives into them, reports `received`, and calls `next_frame` until it returns None. It
then calls `retain`, because the scratch buffer belongs to the next connection.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ottla.wire.connection.buffers import LARGE_SIZE_MAX, ReceiveBuffers, reserve
from ottla.wire.connection.request_memory import UNCOUNTED_BYTES, MemoryHolder

__all__ = ["LARGE_FRAME_SIZE", "TLS_HANDSHAKE", "FrameReader", "FrameSizeError"]

_SIZE = Struct(">i")
_NOTHING = memoryview(b"")

# From this size on, receiving in place saves more than the additional system call costs.
LARGE_FRAME_SIZE = 32 * 1024

# If the peer is not trusted, the buffer of a frame begins with this size and doubles as its bytes arrive.
FRAME_ALLOCATION_FIRST = 1024 * 1024

# The first size after a small frame, and when the memory for incomplete frames is used up.
FRAME_ALLOCATION_UNPROVEN = UNCOUNTED_BYTES

# The beginning of a TLS connection, read as a frame: a record with a handshake, which would be a frame of 369 MB, and
# the kind of handshake.
TLS_HANDSHAKE = 0x1603
TLS_CLIENT_HELLO = 1


class FrameSizeError(Exception):
    """A frame announces an impossible size; the stream cannot be read any further."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a frame of {size} bytes")
        self.size = size


class FrameReader:
    """The receiving half of a connection."""

    __slots__ = (
        "_buffers",
        "_data",
        "_filled",
        "_frame",
        "_holder",
        "_is_trusted",
        "_memory",
        "_size",
        "_whole",
        "end",
        "has_begun_frame",
        "position",
        "size_max",
        "size_min",
        "waits_for_room",
    )

    def __init__(
        self,
        buffers: ReceiveBuffers,
        *,
        size_min: int,
        size_max: int,
        is_trusted: bool,
        holder: MemoryHolder | None = None,
    ) -> None:
        self._buffers = buffers
        # The bound on the memory of incomplete frames, and the connection for which it is counted.
        self._memory = None if holder is None else buffers.memory
        self._holder: Any = holder
        # True if there is no memory for more of the frame: no bytes can be received until `grow_again` has succeeded.
        self.waits_for_room = False
        self.size_min = size_min
        self.size_max = size_max
        # True if a frame's announced size may be allocated at once, because this end asked for the bytes.
        self._is_trusted = is_trusted
        # The incomplete frame, and how much of its buffer is filled.
        self._frame: memoryview | None = None
        self._filled = 0
        # All of its buffer, where `_frame` is the part that may be filled now.
        self._whole: memoryview | None = None
        # The size of the incomplete frame, or of the last complete one.
        self._size = 0
        # Bytes that are received but not cut into frames yet: `_data[position:end]`. To be read by drivers, which skip
        # calls where there are none.
        self._data = _NOTHING
        self.position = 0
        self.end = 0
        # True if only the size of the next frame was received: its bytes are probably waiting in the socket.
        self.has_begun_frame = False

    @property
    def size(self) -> int:
        """The size of the incomplete frame, or of the last complete one."""
        return self._size

    @property
    def filled(self) -> int:
        """The bytes of it that were received."""
        return self._filled

    @property
    def unread_bytes(self) -> int:
        """Bytes that were received and belong to no frame yet."""
        return self.end - self.position

    def targets(self) -> tuple[memoryview] | tuple[memoryview, memoryview]:
        """The buffers for the next read, in this order."""
        buffers = self._buffers
        scratch = buffers.scratch if self._size < LARGE_FRAME_SIZE else buffers.head
        frame = self._frame
        if frame is None:
            begun = self.end - self.position
            if begun:
                scratch[:begun] = self._data[self.position : self.end]
                return (scratch[begun:],)
            return (scratch,)
        if len(frame) < self._size:
            return (frame[self._filled :],)
        # The end of this frame and the beginning of the next in one call.
        return frame[self._filled :], scratch

    def received(self, count: int) -> None:
        """`count` bytes were received into the `targets`."""
        frame = self._frame
        if frame is None:
            self.end = self.end - self.position + count
            self._data, self.position = self._buffers.scratch, 0
            return
        self.has_begun_frame = False
        filled = self._filled + count
        room = len(frame)
        if filled > room:
            self._data, self.position, self.end = self._buffers.scratch, 0, filled - room
            filled = room
        self._filled = filled
        if filled == room < self._size:
            self._grow(frame)

    def next_frame(self) -> memoryview | None:
        """The next complete frame, in a writable buffer of its own; raises FrameSizeError."""
        if self._frame is not None:
            if self._filled < self._size:
                return None
            frame, self._frame = self._frame, None
            if self._size > UNCOUNTED_BYTES:
                self._whole = None
                if self._memory is not None:
                    self._memory.release(self._holder)
            return frame
        position, end = self.position, self.end
        if end - position < 4:
            return None
        data = self._data
        (size,) = _SIZE.unpack_from(data, position)
        if size < self.size_min or size > self.size_max:
            raise FrameSizeError(size)
        start = position + 4
        after = start + size
        if after > end:
            self._begin(size, data[start:end])
            self.position = end
            return None
        self._size, self.position = size, after
        return memoryview(bytearray(data[start:after]))

    def retain(self) -> None:
        """Copies unread bytes out of the shared scratch buffer; they are read when `next_frame` is called again."""
        position, end = self.position, self.end
        if position == end:
            self._data = _NOTHING
        elif self._data is self._buffers.scratch or position:
            self._data = memoryview(bytes(self._data[position:end]))
        self.position, self.end = 0, end - position

    def grow_again(self) -> None:
        """Tries to make room for a frame that waits for it."""
        assert self.waits_for_room
        assert self._frame is not None
        self.waits_for_room = False
        self._grow(self._frame)

    def drop(self) -> None:
        """Drops the incomplete frame, because the connection ends."""
        self._frame = self._whole = None
        self.waits_for_room = self.has_begun_frame = False
        if self._memory is not None:
            self._memory.release(self._holder)

    def close(self) -> None:
        """Ends receiving. Drops the reference to the holder, which refers to this object."""
        self.drop()
        self._memory = self._holder = None

    def _begin(self, size: int, received: memoryview) -> None:
        filled = len(received)
        self._filled = filled
        if self._is_trusted:
            self._size, allocated = size, size
        else:
            limit = FRAME_ALLOCATION_FIRST if self._size >= LARGE_FRAME_SIZE else FRAME_ALLOCATION_UNPROVEN
            allocated = max(min(size, limit), filled)
            self._size = size
            if size >> 16 == TLS_HANDSHAKE and filled > 1 and received[1] == TLS_CLIENT_HELLO:
                raise FrameSizeError(size)
            if (
                allocated > UNCOUNTED_BYTES
                and self._memory is not None
                and not self._memory.take(self._holder, allocated)
            ):
                allocated = FRAME_ALLOCATION_UNPROVEN
        frame = memoryview(self._buffers.large.take(allocated))[:allocated]
        frame[:filled] = received
        self._frame = frame
        self.has_begun_frame = not filled

    def _grow(self, frame: memoryview) -> None:
        """Allocates more room for a frame whose beginning has arrived: 1 MiB, then twice as much each time."""
        allocated = min(self._size, max(2 * len(frame), FRAME_ALLOCATION_FIRST))
        memory = self._memory
        if memory is not None and not memory.take(self._holder, allocated):
            self.waits_for_room = True
            memory.wait(self._holder)
            return
        whole = self._whole
        if whole is None:
            if self._size > LARGE_SIZE_MAX:
                whole = self._whole = reserve(self._size)
            else:
                whole = memoryview(self._buffers.large.take(allocated))
            whole[: len(frame)] = frame
        self._frame = whole[:allocated]
