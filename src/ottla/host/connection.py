"""One client's connection: bytes in, requests out to the dispatcher, answers back in order.

Reading. One `recv_into` takes whatever is there into a scratch buffer that all connections of the loop share; complete
frames are copied out of it (a few hundred bytes each) and handed to the dispatcher at once. The frame that did not
fit gets a buffer of its own, and further reads go straight into that, so the bytes of a large batch are never copied.
A frame's size is checked before anything is allocated, and a buffer beyond 1 MiB grows only as its bytes arrive: a
client that merely announces 100 MB costs nothing.

Answering. Requests are handled as they arrive, however many are under way; answers leave strictly in request order,
which is what Kafka's clients rely on. An answer that is not there yet is a `PendingResponse` in a queue, and those
behind it wait. What is ready is collected while a read is worked through and written with one system call.

Back-pressure. Reading stops while too many requests are unanswered or too many answered bytes are unsent, and goes on
when half of them are gone: a slow reader holds a bounded amount of memory, and TCP tells it so.

Files. A `FileRegion` goes out by `os.sendfile`. Before that it is asked whether its pages are in memory; when they are
not, a worker reads them first, because a page fault inside sendfile would stall every other connection.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.broker.context import CloseConnection, ConnectionContext
from ottla.broker.pending import Part, PendingResponse, ResponseWaiter
from ottla.host.buffers import SCRATCH_SIZE, LargeBuffers
from ottla.model.deferred import Deferred
from ottla.model.ports import File, FileRegion, World

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop

__all__ = ["Connection", "ConnectionOwner", "ConnectionSettings", "FrameHandler", "SharedReadState"]

logger = logging.getLogger("ottla.host.connection")

_SIZE = struct.Struct(">i")

# A frame begins with api key, version and correlation id; anything shorter is not Kafka's protocol.
FRAME_SIZE_MIN = 8

# A frame's buffer starts with at most this much and doubles as its bytes arrive.
FRAME_ALLOCATION_FIRST = 1024 * 1024

# Regions up to this size are read and sent along with what is around them; larger ones go by sendfile.
REGION_COPIED_MAX = 8 * 1024

# Pages are brought in and sent in runs of this size, and looked for at this distance (the kernel's readahead window).
REGION_RUN = 1024 * 1024
REGION_PROBE_DISTANCE = 128 * 1024

# Answers up to this much are copied together and sent as one buffer.
JOINED_MAX = 32 * 1024

# One connection may send this much before the loop turns to the others.
FLUSH_BYTES_MAX = 4 * 1024 * 1024

# What one sendmsg takes: the kernel's own limit is 1024.
BUFFERS_PER_SEND_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    request_bytes_max: int
    requests_unanswered_max: int
    unsent_bytes_max: int


class FrameHandler(Protocol):
    """Answers a request: `ottla.broker.dispatch.Dispatcher`, or a stand-in under test."""

    def dispatch(
        self, frame: memoryview, connection: ConnectionContext, waiter: ResponseWaiter
    ) -> list[Part] | PendingResponse | None: ...


class ConnectionOwner(Protocol):
    """Whoever accepted the connection and wants to know when it is gone."""

    def connection_closed(self, connection: Connection, reason: str | None) -> None:
        """`reason` is a sentence for the log when it was we who ended it, None when the client did."""


class SharedReadState:
    """What the connections of one loop share for reading."""

    __slots__ = ("large_buffers", "scratch")

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(SCRATCH_SIZE))
        self.large_buffers = LargeBuffers()


class Connection:
    __slots__ = (
        "_answers",
        "_backlog",
        "_closed",
        "_closing_reason",
        "_dispatcher",
        "_fd",
        "_flush_planned",
        "_frame",
        "_frame_filled",
        "_frame_size",
        "_in_callback",
        "_loop",
        "_outgoing",
        "_owner",
        "_paused",
        "_region_warm_until",
        "_regions",
        "_settings",
        "_shared",
        "_size_bytes",
        "_socket",
        "_stopping",
        "_unsent_bytes",
        "_waiting_for_disk",
        "_waiting_for_writable",
        "_world",
        "context",
        "last_active",
    )

    def __init__(
        self,
        *,
        loop: EventLoop,
        world: World,
        connected_socket: socket.socket,
        context: ConnectionContext,
        dispatcher: FrameHandler,
        owner: ConnectionOwner,
        shared: SharedReadState,
        settings: ConnectionSettings,
    ) -> None:
        self._loop = loop
        self._world = world
        self._socket = connected_socket
        self._fd = connected_socket.fileno()
        self._dispatcher = dispatcher
        self._owner = owner
        self._shared = shared
        self._settings = settings
        self.context = context
        self.last_active = loop.time()
        # The frame being read: its buffer once its size is known, or the first bytes of the size itself.
        self._frame: memoryview | None = None
        self._frame_size = 0
        self._frame_filled = 0
        self._size_bytes = b""
        # Received but not handled yet, because reading is paused.
        self._backlog: bytearray | None = None
        # Answers that wait, in request order; empty as long as everything is answered at once.
        self._answers: deque[PendingResponse] = deque()
        self._outgoing: deque[Part] = deque()
        self._unsent_bytes = 0
        # Whether there is a FileRegion in `_outgoing`.
        self._regions = False
        self._region_warm_until = -1
        self._paused = False
        self._in_callback = False
        self._flush_planned = False
        self._waiting_for_writable = False
        self._waiting_for_disk = False
        self._closing_reason: str | None = None
        self._stopping = False
        self._closed = False
        loop.add_reader(self._fd, self._on_readable)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self, reason: str | None = None) -> None:
        """Ends the connection at once; what was not sent is lost."""
        if self._closed:
            return
        self._closed = True
        if not self._paused:
            self._loop.remove_reader(self._fd)
        if self._waiting_for_writable:
            self._loop.remove_writer(self._fd)
        self._outgoing.clear()
        self._answers.clear()
        self._frame = self._backlog = None
        self._socket.close()
        self._owner.connection_closed(self, reason)

    def stop_reading(self) -> None:
        """Takes no further requests; what is under way is still answered. For the shutdown of the node."""
        if self._closed:
            return
        self._stopping = True
        self._pause()
        self._close_when_drained()

    # -- reading ---------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        self.last_active = self._loop.time()
        try:
            if self._frame is None:
                self._read_into_scratch()
            else:
                self._read_into_frame(self._frame)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
        except Exception:
            # A defect of ours costs this client its connection, and nobody else anything.
            logger.exception("connection %s failed", self.context.connection_id)
            self.close("an internal error")

    def _read_into_scratch(self) -> None:
        scratch = self._shared.scratch
        begun = len(self._size_bytes)
        if begun:
            scratch[:begun] = self._size_bytes
            received = self._socket.recv_into(scratch[begun:])
        else:
            received = self._socket.recv_into(scratch)
        if received == 0:
            self.close()
            return
        self._size_bytes = b""
        self._handle(scratch, begun + received)

    def _read_into_frame(self, frame: memoryview) -> None:
        filled = self._frame_filled
        missing = len(frame) - filled
        scratch = self._shared.scratch
        if missing >= SCRATCH_SIZE or len(frame) < self._frame_size:
            received = self._socket.recv_into(frame[filled:])
            beyond = 0
        else:
            # The end of this frame and the beginning of the next in one call.
            received = self._socket.recvmsg_into((frame[filled:], scratch))[0]
            beyond = max(received - missing, 0)
        if received == 0:
            self.close()
            return
        self._frame_filled = filled = filled + received - beyond
        if filled < len(frame):
            return
        if filled < self._frame_size:
            self._grow_frame(frame)
            return
        self._frame = None
        self._in_callback = True
        self._take(frame)
        del frame
        self._in_callback = False
        if beyond and not self._closed and self._closing_reason is None:
            self._handle(scratch, beyond)
        else:
            self._after_reading()

    def _handle(self, data: memoryview, end: int) -> None:
        """Takes every complete frame of `data[:end]` and keeps the beginning of the next."""
        position = 0
        self._in_callback = True
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            if size < FRAME_SIZE_MIN or size > self._settings.request_bytes_max:
                self._refuse_size(size)
                break
            frame_start = position + 4
            position = frame_start + size
            if position > end:
                self._begin_frame(size, data[frame_start:end])
                position = end
                break
            self._take(memoryview(bytearray(data[frame_start:position])))
            if self._paused or self._closing_reason is not None or self._closed:
                break
        self._in_callback = False
        if self._closed:
            return
        if position < end and self._closing_reason is None:
            if self._paused:
                self._backlog = bytearray(data[position:end])
            else:
                self._size_bytes = bytes(data[position:end])
        self._after_reading()

    def _begin_frame(self, size: int, received: memoryview) -> None:
        filled = len(received)
        allocated = max(min(size, FRAME_ALLOCATION_FIRST), filled)
        frame = memoryview(self._shared.large_buffers.take(allocated))[:allocated]
        frame[:filled] = received
        self._frame, self._frame_size, self._frame_filled = frame, size, filled

    def _grow_frame(self, frame: memoryview) -> None:
        """Doubles the buffer of a frame beyond 1 MiB, now that the first half has really come."""
        grown = bytearray(min(self._frame_size, 2 * len(frame)))
        grown[: len(frame)] = frame
        self._frame = memoryview(grown)

    def _take(self, frame: memoryview) -> None:
        """Hands one request over and queues its answer, or what will become it."""
        try:
            answer = self._dispatcher.dispatch(frame, self.context, self)
        except CloseConnection as order:
            self._closing_reason = str(order)
            return
        if type(answer) is list:
            if self._answers:
                self._answers.append(PendingResponse.answered(answer))
            else:
                self._send(answer)
        elif answer is not None:
            self._answers.append(answer)  # type: ignore[arg-type]
        if (
            len(self._answers) >= self._settings.requests_unanswered_max
            or self._unsent_bytes >= self._settings.unsent_bytes_max
        ):
            self._pause()

    def _after_reading(self) -> None:
        if self._answers:
            self._collect_answers()
        if self._outgoing and not self._waiting_for_writable and not self._waiting_for_disk:
            self._flush()
        else:
            self._after_flush()

    def _refuse_size(self, size: int) -> None:
        if size < FRAME_SIZE_MIN:
            self._closing_reason = f"a request cannot have a size of {size} bytes"
        else:
            maximum = self._settings.request_bytes_max
            self._closing_reason = f"a request of {size} bytes is larger than socket.request.max.bytes ({maximum})"

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def _resume_when_drained(self) -> None:
        settings = self._settings
        if (
            2 * len(self._answers) > settings.requests_unanswered_max
            or 2 * self._unsent_bytes > settings.unsent_bytes_max
            or self._closing_reason is not None
            or self._stopping
        ):
            return
        self._paused = False
        self._loop.add_reader(self._fd, self._on_readable)
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            self._handle(memoryview(backlog), len(backlog))

    # -- answering -------------------------------------------------------------------------------------------------

    def response_ready(self) -> None:
        """A pending response got its bytes (or its order to close): called by the dispatcher, on the loop's thread."""
        if not self._closed and not self._in_callback:
            # Whatever resolved this one may resolve the next in a moment: one write for all of them.
            self._plan_responses()

    def _plan_responses(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._on_responses_ready)

    def _on_responses_ready(self) -> None:
        self._flush_planned = False
        if self._closed:
            return
        self._after_reading()
        if self._paused and not self._closed:
            self._resume_when_drained()

    def _collect_answers(self) -> None:
        answers = self._answers
        while answers and answers[0].ready:
            answer = answers.popleft()
            if answer.close_reason is not None:
                self._closing_reason = answer.close_reason
                answers.clear()
                return
            if answer.parts is not None:
                self._send(answer.parts)

    def _send(self, parts: list[Part]) -> None:
        for part in parts:
            size = len(part)
            if size == 0:
                continue
            if isinstance(part, FileRegion):
                self._regions = True
            else:
                self._unsent_bytes += size
            self._outgoing.append(part)

    def _flush(self) -> None:
        """Writes as much as the socket takes; arranges to be called again when there is more."""
        outgoing = self._outgoing
        budget = FLUSH_BYTES_MAX
        try:
            while outgoing:
                part = outgoing[0]
                if isinstance(part, FileRegion) and len(part) > REGION_COPIED_MAX:
                    sent = self._send_region(part)
                else:
                    sent = self._send_buffers()
                if sent == 0:
                    # Nobody is to tell us that the socket is writable while it is the disk we wait for.
                    self._stop_waiting_for_writable()
                    return
                budget -= sent
                if budget <= 0 and outgoing:
                    self._wait_for_writable()
                    return
        except (BlockingIOError, InterruptedError):
            self._wait_for_writable()
            return
        except OSError:
            self.close()
            return
        self._regions = False
        self._stop_waiting_for_writable()
        self._after_flush()

    def _after_flush(self) -> None:
        """Everything answered so far is sent, or waits its turn: end what is to end, go on with what was paused."""
        if self._stopping or self._closing_reason is not None:
            self._close_when_drained()
        elif self._paused:
            # Not at once: frames of the backlog would be handled ever deeper in the stack.
            self._plan_responses()

    def _stop_waiting_for_writable(self) -> None:
        if self._waiting_for_writable:
            self._waiting_for_writable = False
            if not self._closed:
                self._loop.remove_writer(self._fd)

    def _wait_for_writable(self) -> None:
        if not self._waiting_for_writable:
            self._waiting_for_writable = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        self.last_active = self._loop.time()
        if not self._waiting_for_disk:
            self._flush()
        if self._paused and not self._closed:
            self._resume_when_drained()

    def _send_buffers(self) -> int:
        """One send of the buffers at the head of the queue; 0 when it has to wait for the disk."""
        outgoing = self._outgoing
        first = outgoing[0]
        if len(outgoing) == 1 and not isinstance(first, FileRegion):
            sent = self._socket.send(first)
            self._unsent_bytes -= sent
            if sent == len(first):
                outgoing.popleft()
            else:
                outgoing[0] = memoryview(first)[sent:]
            return sent
        if not self._regions and self._unsent_bytes <= JOINED_MAX:
            # Copying a few small answers together is cheaper than telling the kernel about each of them.
            joined = b"".join(outgoing)  # type: ignore[arg-type]
            sent = self._socket.send(joined)
            self._unsent_bytes -= sent
            outgoing.clear()
            if sent < len(joined):
                outgoing.append(memoryview(joined)[sent:])
            return sent
        buffers, flags = self._gather()
        if not buffers:
            return 0
        sent = self._socket.sendmsg(buffers, (), flags)
        self._unsent_bytes -= sent
        left = sent
        while left:
            head = outgoing[0]
            assert not isinstance(head, FileRegion)
            if left < len(head):
                outgoing[0] = memoryview(head)[left:]
                break
            left -= len(head)
            outgoing.popleft()
        return sent

    def _gather(self) -> tuple[list[bytes | bytearray | memoryview], int]:
        """The buffers at the head of the queue, small regions read in; MSG_MORE when a sendfile follows them."""
        buffers: list[bytes | bytearray | memoryview] = []
        for index, part in enumerate(self._outgoing):
            if isinstance(part, FileRegion):
                if len(part) > REGION_COPIED_MAX:
                    return buffers, socket.MSG_MORE
                data = part.file.read_nowait(part.position, len(part))
                if data is None or len(data) < len(part):
                    if not buffers:
                        self._read_on_worker(part)
                    return buffers, 0
                self._outgoing[index] = data
                self._unsent_bytes += len(data)
                buffers.append(data)
            else:
                buffers.append(part)
            if len(buffers) == BUFFERS_PER_SEND_MAX:
                break
        return buffers, 0

    def _read_on_worker(self, region: FileRegion) -> None:
        """A small region whose pages are not in memory: its bytes take its place in the queue."""

        def on_read(deferred: Deferred[bytes]) -> None:
            self._waiting_for_disk = False
            if self._closed:
                return
            if deferred.error is not None or len(deferred.result()) < len(region):
                self.close(f"cannot read {region}: {deferred.error or 'the file is shorter'}")
                return
            self._outgoing[0] = deferred.result()
            self._unsent_bytes += len(region)
            self._flush()

        self._waiting_for_disk = True
        self._world.workers.submit(region.read).when_done(on_read)

    def _send_region(self, region: FileRegion) -> int:
        """One sendfile from the region at the head of the queue; 0 when it has to wait for the disk."""
        position = region.position
        length = min(region.length, REGION_RUN)
        if position + length > self._region_warm_until:
            if not _is_in_memory(region.file, position, length):
                self._warm_on_worker(region.file, position, length)
                return 0
            self._region_warm_until = position + length
        sent = os.sendfile(self._fd, region.file.fileno(), position, length)
        if sent == 0:
            # The client was promised these bytes, and they are gone: there is no way to go on in this stream.
            self.close(f"{region} ends before its announced length")
            return 0
        if sent == region.length:
            self._outgoing.popleft()
            self._region_warm_until = -1
        else:
            self._outgoing[0] = FileRegion(region.file, position + sent, region.length - sent)
        return sent

    def _warm_on_worker(self, file: File, position: int, length: int) -> None:
        def on_warm(deferred: Deferred[int]) -> None:
            self._waiting_for_disk = False
            if self._closed:
                return
            if deferred.error is not None:
                self.close(f"cannot read {file.path}: {deferred.error}")
                return
            self._region_warm_until = position + length
            self._flush()

        self._waiting_for_disk = True
        self._world.workers.submit(_bring_into_memory, file, position, length).when_done(on_warm)

    def _close_when_drained(self) -> None:
        """Ends a connection that is to end, once what was answered is sent.

        Answers still pending are awaited when it is the node that stops, not when the client broke the protocol.
        """
        if self._closed or self._outgoing or self._in_callback:
            return
        if self._closing_reason is not None or not self._answers:
            self.close(self._closing_reason)


def _is_in_memory(file: File, position: int, length: int) -> bool:
    """Whether the pages are (most likely) cached: every readahead window is asked for one byte."""
    end = position + length
    while position < end:
        if file.read_nowait(position, 1) is None:
            return False
        position += REGION_PROBE_DISTANCE
    return file.read_nowait(end - 1, 1) is not None


def _bring_into_memory(file: File, position: int, length: int) -> int:
    return len(file.read(position, length))
