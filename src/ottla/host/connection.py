"""One client's connection: bytes in, requests out to the dispatcher, answers back in order.

Reading. One `recv_into` takes whatever is there into a scratch buffer that all connections of the loop share; complete
frames are copied out of it (a few hundred bytes each) and handed to the dispatcher at once. The frame that did not
fit gets a buffer of its own, and further reads go straight into that. A connection whose last frame was large reads
no more than the next frame's size into the scratch buffer, so the bytes of large batches are not copied at all.
A frame's size is checked before anything is allocated, and a buffer beyond 1 MiB grows only as its bytes arrive: a
client that merely announces 100 MB costs nothing.

Answering. Requests are handled as they arrive, however many are under way; answers leave strictly in request order,
which is what Kafka's clients rely on. An answer that is not there yet is a `PendingResponse` in a queue, and those
behind it wait. What is ready is collected while a read is worked through and written with one system call, at once or
when the other connections that have something to read have been read too (`send_turn`).

Back-pressure. Reading stops while too many requests or too many bytes of them are unanswered, or too many answered
bytes are unsent, and goes on when half of them are gone: a slow reader holds a bounded amount of memory, and TCP tells
it so. A client that has used more than its quota has its answer, and is not heard for as long as that says (`mute`).

Sending itself, from memory and from files, is the `Outbox`'s business.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.broker.context import CloseConnection, ConnectionContext
from ottla.broker.pending import Part, PendingResponse, ResponseWaiter
from ottla.host.buffers import SCRATCH_SIZE, LargeBuffers
from ottla.host.muting import Muting, has_left
from ottla.host.outbox import Outbox
from ottla.host.send_turn import SendTurn
from ottla.model.ports import FileRegion, Scheduler, World

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop

__all__ = ["Connection", "ConnectionOwner", "ConnectionSettings", "FrameHandler", "SharedReadState"]

logger = logging.getLogger("ottla.host.connection")

_SIZE = struct.Struct(">i")

# A frame begins with api key, version and correlation id; anything shorter is not Kafka's protocol.
FRAME_SIZE_MIN = 8

# From this size on it pays not to read a frame's beginning into the shared scratch buffer.
LARGE_FRAME_SIZE = 32 * 1024

# A frame's buffer starts with at most this much and doubles as its bytes arrive ...
FRAME_ALLOCATION_FIRST = 1024 * 1024

# ... but anybody can announce a large frame: on a connection that has not sent one yet, its first bytes come first.
FRAME_ALLOCATION_UNPROVEN = 64 * 1024

# So many bytes may be held by requests that wait for their answers, and by the answers that wait behind them.
HELD_BYTES_MAX = 32 * 1024 * 1024


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
    """What the connections of one loop share for reading, and for answering what they have read."""

    __slots__ = ("large_buffers", "scratch", "scratch_head", "send_turn")

    def __init__(self, scheduler: Scheduler) -> None:
        self.send_turn = SendTurn(scheduler)
        self.scratch = memoryview(bytearray(SCRATCH_SIZE))
        self.scratch_head = self.scratch[:4]
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
        "_held_bytes",
        "_in_callback",
        "_loop",
        "_muting",
        "_outbox",
        "_owner",
        "_paused",
        "_settings",
        "_shared",
        "_size_bytes",
        "_socket",
        "_stopping",
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
        # The size of that frame, or of the last one.
        self._frame_size = 0
        self._frame_filled = 0
        self._size_bytes = b""
        # Received but not handled yet, because reading is paused.
        self._backlog: bytearray | None = None
        # Answers that wait, in request order; empty as long as everything is answered at once.
        self._answers: deque[PendingResponse] = deque()
        # The frames of the requests behind them, though not all keep theirs, and answers that are there already.
        self._held_bytes = 0
        self._outbox = Outbox(loop=loop, world=world, connected_socket=connected_socket, owner=self)
        self._paused = False
        # Made when the client uses more than its quota for the first time.
        self._muting: Muting | None = None
        self._in_callback = False
        self._flush_planned = False
        self._closing_reason: str | None = None
        self._stopping = False
        self._closed = False
        loop.add_reader(self._fd, self._on_readable)
        context.mute = self.mute

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
        self.context.mute = None
        if self._muting is not None:
            self._muting.cancel()
        self._outbox.close()
        self._answers.clear()
        self._frame = self._backlog = None
        self._socket.close()
        self._owner.connection_closed(self, reason)
        on_closed = self.context.on_closed
        if on_closed is not None and reason is None and not self._stopping:
            on_closed()

    def mute(self, seconds: float) -> None:
        """Takes no further requests for so long; what is under way is answered (KIP-219)."""
        if self._closed:
            return
        if self._muting is None:
            self._muting = Muting(self._loop, on_look=self._look_whether_alive, on_over=self._plan_responses)
        until = self._loop.time() + seconds
        if self._muting.extend(until):
            # Silence that was asked for does not make a connection idle.
            self.last_active = until
            self._pause()

    def _look_whether_alive(self) -> None:
        if self._backlog is None and has_left(self._socket):
            self.close()

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
                if self._frame is None or self._frame_filled or self._paused:
                    return
                # Of a large frame only the size was asked for; the rest has come with it, and needs no turn of its own.
            self._read_into_frame(self._frame)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
        except Exception:  # noqa: BLE001 - logged there
            # A defect of ours costs this client its connection, and nobody else anything.
            self._fail()

    def _read_into_scratch(self) -> None:
        # After a large frame another one is likely, and nothing of it should have to be copied.
        scratch = self._shared.scratch if self._frame_size < LARGE_FRAME_SIZE else self._shared.scratch_head
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
        scratch = self._shared.scratch if self._frame_size < LARGE_FRAME_SIZE else self._shared.scratch_head
        if len(frame) < self._frame_size:
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
            if not self._paused:
                self._handle(scratch, beyond)
                return
            self._backlog = bytearray(scratch[:beyond])
        if self._outbox.is_empty or not self._shared.send_turn.postpones(self):
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
            self._frame_size = size
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
        if self._outbox.is_empty or not self._shared.send_turn.postpones(self):
            self._after_reading()

    def _begin_frame(self, size: int, received: memoryview) -> None:
        filled = len(received)
        allocated_max = FRAME_ALLOCATION_FIRST if self._frame_size >= LARGE_FRAME_SIZE else FRAME_ALLOCATION_UNPROVEN
        allocated = max(min(size, allocated_max), filled)
        frame = memoryview(self._shared.large_buffers.take(allocated))[:allocated]
        frame[:filled] = received
        self._frame, self._frame_size, self._frame_filled = frame, size, filled

    def _grow_frame(self, frame: memoryview) -> None:
        """More room for a frame whose beginning has really come: 1 MiB, then twice as much each time."""
        allocated = min(self._frame_size, max(2 * len(frame), FRAME_ALLOCATION_FIRST))
        grown = memoryview(self._shared.large_buffers.take(allocated))[:allocated]
        grown[: len(frame)] = frame
        self._frame = grown

    def _take(self, frame: memoryview) -> None:
        """Hands one request over and queues its answer, or what will become it."""
        try:
            answer = self._dispatcher.dispatch(frame, self.context, self)
        except CloseConnection as order:
            self._closing_reason = str(order)
            return
        if type(answer) is list:
            if self._answers:
                statistics = self.context.last_statistics
                pending = PendingResponse.answered(answer, now=self._loop.time(), statistics=statistics)
                self._hold(pending, sum([len(part) for part in answer if not isinstance(part, FileRegion)]))
            else:
                self._outbox.put(answer)
        elif answer is not None:
            self._hold(answer, len(frame))  # type: ignore[arg-type]
        if (
            len(self._answers) >= self._settings.requests_unanswered_max
            or self._outbox.unsent_bytes >= self._settings.unsent_bytes_max
            or self._held_bytes >= HELD_BYTES_MAX
        ):
            self._pause()

    def _hold(self, pending: PendingResponse, size_bytes: int) -> None:
        self._answers.append(pending)
        pending.held_bytes = size_bytes
        self._held_bytes += size_bytes

    def _after_reading(self) -> None:
        answers = self._answers
        if answers and answers[0].ready:
            self._collect_answers()
        outbox = self._outbox
        if outbox.is_empty or outbox.flush():
            self._after_flush()
        elif self._closing_reason is not None:
            # It ends when this has left; what comes until then is not to be taken for requests.
            self._pause()

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

    def _is_drained(self) -> bool:
        """Whether a paused connection may go on."""
        settings = self._settings
        return not (
            2 * len(self._answers) > settings.requests_unanswered_max
            or 2 * self._outbox.unsent_bytes > settings.unsent_bytes_max
            or 2 * self._held_bytes > HELD_BYTES_MAX
            or (self._muting is not None and self._muting.until)
            or self._closing_reason is not None
            or self._stopping
        )

    def _resume_when_drained(self) -> None:
        if not self._is_drained():
            return
        self._paused = False
        self._loop.add_reader(self._fd, self._on_readable)
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            self._handle(memoryview(backlog), len(backlog))

    # -- answering -------------------------------------------------------------------------------------------------

    def response_ready(self) -> None:
        """A pending response got its bytes (or its order to close): called by the dispatcher, on the loop's thread."""
        if self._closed or self._in_callback:
            return
        if len(self._answers) == 1 and not self._flush_planned and not self._paused:
            self._send_now()
        else:
            # Whatever resolved this one may resolve the next in a moment: one write for all of them.
            self._plan_responses()

    def send_answers(self) -> None:
        """The turn of the loop in which this connection was read ends: called by `SendTurn`."""
        if not self._closed:
            self._send_now()

    def outbox_moved(self) -> None:
        """Something left after a wait: called by the outbox."""
        if self._closed:
            return
        self.last_active = self._loop.time()
        if self._outbox.is_empty:
            self._after_flush()
        if self._paused and not self._closed:
            self._resume_when_drained()

    def outbox_waited(self, seconds: float) -> None:
        statistics = self.context.last_statistics
        if statistics is not None:
            statistics.count_send_wait(seconds)

    def outbox_failed(self, reason: str | None) -> None:
        self.close(reason)

    def _fail(self) -> None:
        """For a defect of ours, while it is being handled."""
        logger.exception("connection %s failed", self.context.connection_id)
        self.close("an internal error")

    def _plan_responses(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._on_responses_ready)

    def _send_now(self) -> None:
        """Sends what is ready, when it is not this connection's own turn."""
        try:
            self._after_reading()
        except Exception:  # noqa: BLE001 - logged there
            # Whoever has resolved the response is not to blame for this connection.
            self._fail()

    def _on_responses_ready(self) -> None:
        self._flush_planned = False
        if self._closed:
            return
        try:
            self._after_reading()
            if self._paused and not self._closed:
                self._resume_when_drained()
        except Exception:  # noqa: BLE001 - logged there
            # With the frame that failed those behind it are lost, and so is the place in the stream.
            self._fail()

    def _collect_answers(self) -> None:
        answers = self._answers
        while answers and answers[0].ready:
            answer = answers.popleft()
            self._held_bytes -= answer.held_bytes
            if answer.close_reason is not None:
                self._closing_reason = answer.close_reason
                answers.clear()
                return
            if answer.ready_since:
                answer.left(self._loop.time())
            if answer.parts is not None:
                self._outbox.put(answer.parts)

    def _after_flush(self) -> None:
        """Everything answered so far is sent, or waits its turn: end what is to end, go on with what was paused."""
        if self._stopping or self._closing_reason is not None:
            self._close_when_drained()
        elif self._paused and self._is_drained():
            # Not at once: frames of the backlog would be handled ever deeper in the stack.
            self._plan_responses()

    def _close_when_drained(self) -> None:
        """Ends a connection that is to end, once what was answered is sent.

        Answers still pending are awaited when it is the node that stops, not when the client broke the protocol.
        """
        if self._closed or self._in_callback or not self._outbox.is_empty:
            return
        if self._closing_reason is not None or not self._answers:
            self.close(self._closing_reason)
