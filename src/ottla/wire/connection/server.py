"""The serving end of a connection: requests in, answers out in request order.

Starting. Kafka handles one request of a connection at a time. A client may rely on that: a request never sees older
state than an earlier answer on the same connection showed. So a request is started when every earlier request of its
connection has been answered. Until then it is *blocked*, and no request after it is read.

The exception are APIs whose requests may overlap without a visible effect for clients (`Handler.starts_behind`): a
producer's pipeline of Produce requests is appended as it arrives and not one round trip at a time. The relation must be
an equivalence: then the newest unanswered request alone decides whether the next one may start. A request that takes
several turns of the loop holds back every later one (`Answer.holds_back`).

Answering. A handler gives an answer at once, or an `Answer` that becomes ready later. Answers leave in request order.

Back-pressure. Reading pauses at a blocked request, at too many unanswered requests or bytes of them, at too many unsent
bytes, after some requests in a row, and while the client is muted for exceeding its quota. It resumes when half of that
is gone, and after requests in a row at once. So a client that does not read its answers costs a bounded amount of
memory. Reading also pauses in the middle of a large request while such requests of all connections occupy too much
memory (`request_memory`).

Ending. After a protocol error, or an order to close, no more bytes are read; finished answers are still sent.

A driver feeds bytes in (`frames.targets`, `received`), calls `collect_answers`, sends what `outgoing` has, and after
each step checks `is_paused`, `may_resume` and `is_finished`. `on_answer_ready` is called when an answer becomes ready
between two steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from typing import Any, Protocol

from ottla.model.ports import FileRegion
from ottla.model.values import Value
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.frames import TLS_HANDSHAKE, FrameReader, FrameSizeError
from ottla.wire.connection.outgoing import Outgoing
from ottla.wire.connection.request_memory import UNCOUNTED_BYTES
from ottla.wire.message import Part

__all__ = [
    "HELD_BYTES_MAX",
    "REQUESTS_IN_A_ROW_MAX",
    "Answer",
    "CloseConnection",
    "ConnectionLimits",
    "Gate",
    "Handler",
    "ServerConnection",
]

# A request begins with API key, version and correlation id; a shorter frame is not Kafka's protocol.
FRAME_SIZE_MIN = 8

# Bytes of unanswered requests, and of answers that wait for an earlier one, that a connection may hold.
HELD_BYTES_MAX = 32 * 1024 * 1024

# Requests that are started in a row before the driver may serve other connections. A read can contain thousands of
# small requests.
REQUESTS_IN_A_ROW_MAX = 8

# The beginnings of requests of HTTP, which Kafka's protocol takes for the size of a frame.
HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI")

_NO_API = -1


class CloseConnection(Exception):
    """Ends the connection that a request came on; the sentence goes to the log.

    Raised where the protocol has no answer: an unknown API or version, a malformed frame, and a failed produce request
    with acks=0, whose client can detect the failure in no other way.
    """


class ConnectionLimits(Value):
    request_bytes_max: int
    requests_unanswered_max: int
    unsent_bytes_max: int


class Answer(Protocol):
    """The place of an answer in its connection's order: `ottla.broker.pending.PendingResponse`."""

    ready: bool
    # None once ready: the request has no answer (acks=0).
    parts: list[Part] | None
    close_reason: str | None
    # The bytes that the connection holds in memory for the answer.
    held_bytes: int
    # True if every later request waits until this one is answered, also one of the same API.
    holds_back: bool

    def on_queued(self, now: float) -> None:
        """The answer was queued for sending, at this time of the monotonic clock."""


class Handler(Protocol):
    """Answers requests: `ottla.broker.dispatch.Dispatcher`."""

    def dispatch(self, frame: memoryview, connection: Any, waiter: Any) -> list[Part] | Any | None:
        """The answer, an `Answer` that calls `waiter.response_ready()`, or None where the request has no answer.

        Raises CloseConnection.
        """

    def starts_behind(self, api_key: int) -> Container[int]:
        """The API keys whose unanswered requests do not keep a request of this API from being started."""

    def answered(self, parts: list[Part], connection: Any) -> Any:
        """An `Answer` that is ready, for an answer that waits for an earlier one."""


class Gate(Protocol):
    """Handles the first requests of a connection, until the client is authenticated (SASL)."""

    # True once the gate is open for good. A gate that may close again sees every request of its connection.
    is_removable: bool
    # Set together with the gate's last answer: why the connection ends behind it.
    close_reason: str | None

    @property
    def is_open(self) -> bool:
        """True while the client is logged in."""

    @property
    def request_bytes_max(self) -> int:
        """The size of a frame until the gate is open for the first time."""

    @property
    def takes_bare_tokens(self) -> bool:
        """True while frames have no header of a request, and may be shorter than one (SaslHandshake version 0)."""

    def take(self, frame: memoryview, connection: Any, waiter: Any) -> list[Part] | Any | None:
        """The gate's own answer, or None where the handler is to answer the frame. Raises CloseConnection."""


class ServerConnection:
    """A connection without its socket."""

    __slots__ = (
        "_blocked",
        "_buffers",
        "_context",
        "_dispatch",
        "_gate",
        "_handler",
        "_held_bytes",
        "_is_muted",
        "_is_row_over",
        "_is_stepping",
        "_is_stopping",
        "_limits",
        "_newest_api_key",
        "_on_answer_ready",
        "close_reason",
        "counted_bytes",
        "frames",
        "is_paused",
        "outgoing",
        "unanswered",
    )

    def __init__(
        self,
        *,
        handler: Handler,
        context: Any,
        limits: ConnectionLimits,
        buffers: ReceiveBuffers,
        on_answer_ready: Callable[[], object],
        outgoing: Outgoing | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._handler = handler
        self._context = context
        self._limits = limits
        self._gate = gate
        self._dispatch = handler.dispatch if gate is None else self._answer_at_gate
        size_max = limits.request_bytes_max if gate is None else min(gate.request_bytes_max, limits.request_bytes_max)
        self._on_answer_ready = on_answer_ready
        self._buffers = buffers
        self.frames = FrameReader(buffers, size_min=FRAME_SIZE_MIN, size_max=size_max, is_trusted=False, holder=self)
        # The memory that is counted for a request that is not complete, or blocked. Changed by `request_memory`.
        self.counted_bytes = 0
        self.outgoing = outgoing if outgoing is not None else Outgoing()
        # Started requests without an answer, and answers that wait for them, in request order. To be read by drivers.
        self.unanswered: deque[Any] = deque()
        # The API key of the last started of these requests; _NO_API if it holds back later requests.
        self._newest_api_key = _NO_API
        # A request that was received but may not be started yet.
        self._blocked: memoryview | None = None
        # The bytes that frames of unanswered requests and waiting answers hold in memory.
        self._held_bytes = 0
        # True if nothing more is to be read for now.
        self.is_paused = False
        self._is_muted = False
        # True if reading paused after requests in a row, and at no limit.
        self._is_row_over = False
        # True while requests are handled: an answer that becomes ready meanwhile is collected afterwards.
        self._is_stepping = False
        self._is_stopping = False
        # Why the connection ends, once that is decided.
        self.close_reason: str | None = None

    # -- requests --------------------------------------------------------------------------------------------------

    def received(self, count: int) -> None:
        """`count` bytes were received into `frames.targets()`: starts the requests among them."""
        self.frames.received(count)
        self.take_frames()

    def take_frames(self) -> None:
        """Starts requests that were received, until one is blocked or a limit is reached."""
        frames, unanswered, limits = self.frames, self.unanswered, self._limits
        frame, self._blocked = self._blocked, None
        left = REQUESTS_IN_A_ROW_MAX
        self._is_stepping = True
        try:
            while True:
                if frame is None and (frame := frames.next_frame()) is None:
                    if frames.waits_for_room:
                        self.is_paused = True
                    break
                if unanswered and not self._may_start(frame):
                    self._block(frame)
                    break
                answer = self._dispatch(frame, self._context, self)
                if type(answer) is list:
                    if unanswered:
                        self._hold_ready(answer)
                    else:
                        self.outgoing.put(answer)
                elif answer is not None:
                    self._hold(answer, len(frame))
                    holds_back = answer.holds_back  # type: ignore[union-attr]
                    self._newest_api_key = _NO_API if holds_back or len(frame) < 2 else frame[0] << 8 | frame[1]
                # A live view would keep the frame's buffer from being reused for the next frame.
                frame = None
                if (
                    len(unanswered) >= limits.requests_unanswered_max
                    or self.outgoing.unsent_bytes >= limits.unsent_bytes_max
                    or self._held_bytes >= HELD_BYTES_MAX
                ):
                    self.is_paused = True
                if self.is_paused or frames.position == frames.end:
                    break
                left -= 1
                if not left:
                    self.is_paused = self._is_row_over = True
                    break
        except CloseConnection as order:
            self._end(str(order), keeps_answers=True)
        except FrameSizeError as error:
            self._refuse_size(error.size)
        finally:
            self._is_stepping = False
        if frames.position != frames.end:
            frames.retain()

    def collect_answers(self, now: float) -> None:
        """Queues the answers that are ready for sending, in request order."""
        unanswered = self.unanswered
        while unanswered and unanswered[0].ready:
            answer = unanswered.popleft()
            self._held_bytes -= answer.held_bytes
            if answer.close_reason is not None:
                if answer.parts is not None:
                    self.outgoing.put(answer.parts)
                self._end(answer.close_reason)
                return
            answer.on_queued(now)
            if answer.parts is not None:
                self.outgoing.put(answer.parts)

    def response_ready(self) -> None:
        """An answer became ready: called by the answer itself."""
        if not self._is_stepping:
            self._on_answer_ready()

    def _may_start(self, frame: memoryview) -> bool:
        """True if starting the request before earlier answers has no visible effect for the client."""
        # A frame before the login may be shorter than the key of an API.
        return len(frame) >= 2 and self._newest_api_key in self._handler.starts_behind(frame[0] << 8 | frame[1])

    def _block(self, frame: memoryview) -> None:
        self._blocked = frame
        self.is_paused = True
        if len(frame) > UNCOUNTED_BYTES and self._buffers.memory is not None:
            self._buffers.memory.hold(self)

    def _answer_at_gate(self, frame: memoryview, context: Any, waiter: Any) -> list[Part] | Any | None:
        """Replaces the handler's `dispatch` until the gate is permanently open."""
        gate = self._gate
        assert gate is not None
        answer = gate.take(frame, context, waiter)
        self.frames.size_min = 0 if gate.takes_bare_tokens else FRAME_SIZE_MIN
        if gate.is_open:
            self.gate_opened()
        if gate.close_reason is not None:
            self._end(gate.close_reason, keeps_answers=True)
        return self._handler.dispatch(frame, context, waiter) if answer is None else answer

    @property
    def is_at_gate(self) -> bool:
        """True until the client has logged in, and while it logs in again."""
        return self._gate is not None and not self._gate.is_open

    def gate_opened(self) -> None:
        """Called when the client has logged in, also by a gate whose answer had to wait."""
        self.frames.size_min, self.frames.size_max = FRAME_SIZE_MIN, self._limits.request_bytes_max
        if self._gate is not None and self._gate.is_removable:
            self._dispatch = self._handler.dispatch
            self._gate = None

    def _hold_ready(self, answer: list[Part]) -> None:
        waiting = self._handler.answered(answer, self._context)
        self._hold(waiting, sum([len(part) for part in answer if not isinstance(part, FileRegion)]))

    def _hold(self, answer: Any, size_bytes: int) -> None:
        answer.held_bytes = size_bytes
        self._held_bytes += size_bytes
        self.unanswered.append(answer)

    # -- back-pressure ---------------------------------------------------------------------------------------------

    @property
    def may_resume(self) -> bool:
        """True if a paused connection may read again: half of the cause of the pause has been worked off."""
        if self._is_row_over:
            return not (self._is_muted or self._is_stopping or self.close_reason is not None)
        limits = self._limits
        return not (
            (self._blocked is not None and self.unanswered and not self._may_start(self._blocked))
            or self.frames.waits_for_room
            or 2 * len(self.unanswered) > limits.requests_unanswered_max
            or 2 * self.outgoing.unsent_bytes > limits.unsent_bytes_max
            or 2 * self._held_bytes > HELD_BYTES_MAX
            or self._is_muted
            or self.close_reason is not None
            or self._is_stopping
        )

    def resume(self) -> None:
        """Reads again, beginning with the bytes received before the pause. Only if `may_resume` is true.

        Must be called on a separate stack and not where an answer has just become ready, because it starts requests.
        """
        self.is_paused = self._is_row_over = False
        if self.counted_bytes and self._blocked is not None:
            self._release_memory()
        self.take_frames()

    def mute(self) -> None:
        """Takes no further requests until `unmute`; requests that were started are answered (KIP-219)."""
        self._is_muted = True
        self.is_paused = True

    def unmute(self) -> None:
        self._is_muted = False

    # -- memory of large requests (`request_memory.MemoryHolder`) ---------------------------------------------------

    @property
    def request_bytes(self) -> int:
        return self.frames.size

    @property
    def received_bytes(self) -> int:
        return self.frames.filled

    def memory_available(self) -> None:
        self.frames.grow_again()
        if not self.frames.waits_for_room:
            self._on_answer_ready()

    def give_up(self, reason: str) -> None:
        self._end(reason, keeps_answers=True)
        self._on_answer_ready()

    def _release_memory(self) -> None:
        if self._buffers.memory is not None:
            self._buffers.memory.release(self)

    # -- the end ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Takes no further requests; requests that were started are answered. For the shutdown of a node."""
        self._is_stopping = True
        self.is_paused = True
        self._blocked = None
        self.frames.drop()

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_ending(self) -> bool:
        return self._is_stopping or self.close_reason is not None

    @property
    def is_finished(self) -> bool:
        """True if the connection can be closed: it is ending, and everything that will be sent has been sent.

        Unanswered requests are awaited when the node stops, not when the client broke the protocol.
        """
        if self.outgoing.parts or self._is_stepping:
            return False
        return self.close_reason is not None or (self._is_stopping and not self.unanswered)

    def drop(self) -> None:
        """Drops all received and unsent bytes, because the connection is closed."""
        self.unanswered.clear()
        self._blocked = None
        self.frames.close()
        self.outgoing.clear()
        self.is_paused = True
        # References back to this object and to its driver: reference counting frees a closed connection.
        self._on_answer_ready = _ignore
        self._dispatch = self._handler.dispatch
        self._gate = None

    def _end(self, reason: str, *, keeps_answers: bool = False) -> None:
        if self.close_reason is None:
            self.close_reason = reason
        self.is_paused = True
        self._blocked = None
        self.frames.drop()
        if not keeps_answers:
            self.unanswered.clear()
            self._held_bytes = 0

    def _refuse_size(self, size: int) -> None:
        if size < self.frames.size_min:
            self._end(f"a request cannot have a size of {size} bytes", keeps_answers=True)
        elif size >> 16 == TLS_HANDSHAKE:
            self._end(
                "the client speaks TLS, but this listener does not (security.protocol of the client)",
                keeps_answers=True,
            )
        else:
            maximum = self._limits.request_bytes_max
            reason = f"a request of {size} bytes is larger than socket.request.max.bytes ({maximum})"
            if size.to_bytes(4, "big") in HTTP_METHODS:
                reason += "; the client seems to speak HTTP"
            self._end(reason, keeps_answers=True)

    def invariants(self) -> None:
        """The conditions that hold between two steps; for tests and the simulator."""
        assert not self._is_stepping
        assert self._held_bytes == sum(answer.held_bytes for answer in self.unanswered)
        assert self._blocked is None or self.is_paused
        assert not self.frames.waits_for_room or self.is_paused
        assert self.close_reason is None or not self.counted_bytes
        assert self.close_reason is None or self.is_paused
        assert len(self.unanswered) <= self._limits.requests_unanswered_max
        assert self.outgoing.unsent_bytes >= 0


def _ignore() -> None:
    """An answer of a closed connection has become ready."""
