"""Drives one client's connection: moves bytes between a socket and the machine `ottla.wire.connection.server`.

The machine cuts requests out of the received bytes, starts them, keeps their answers in order and decides when to
pause. This module receives, sends, and keeps the event loop's registrations in step with the machine.

Reading. One `recv_into` reads the socket's bytes into the scratch buffer that all connections of the loop share. The
remainder of a large frame is received into the frame's own buffer, together with the beginning of the next frame.

Sending. Answers that are ready are collected while a read is worked through, and written with one system call: at
once, or when the other connections that have something to read have been read too (`send_turn`). Sending itself, from
memory and from files, is the task of the `Outbox`.

A client that exceeds its quota gets its answer, and its connection is muted for the throttle time (`mute`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from ottla.broker.context import ConnectionContext
from ottla.host.byte_stream import PLAIN, ByteStream, StreamTraits
from ottla.host.muting import Muting, is_closed_by_client
from ottla.host.outbox import Outbox
from ottla.host.send_turn import SendTurn
from ottla.host.stranger_turns import StrangerTurns
from ottla.model.ports import Scheduler, World
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.request_memory import CHECK_SECONDS, RequestMemory
from ottla.wire.connection.server import ConnectionLimits, Gate, Handler, ServerConnection

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop

__all__ = ["Connection", "ConnectionOwner", "SharedReadState"]

logger = logging.getLogger("ottla.host.connection")

# After this many bytes of a connection the loop serves other connections. A client that sends faster than the node
# works would otherwise occupy the loop for as long as it sends.
RECEIVE_BYTES_MAX = 1024 * 1024


class ConnectionOwner(Protocol):
    """The listener that accepted the connection."""

    def connection_closed(self, connection: Connection, reason: str | None) -> None:
        """`reason` is a sentence for the log if this node closed the connection, None if the client did."""


class SharedReadState:
    """The state that all connections of an event loop share."""

    __slots__ = ("_is_check_planned", "_scheduler", "buffers", "memory", "send_turn", "stranger_turns")

    def __init__(self, scheduler: Scheduler, memory: RequestMemory) -> None:
        self._scheduler = scheduler
        self.send_turn = SendTurn(scheduler)
        self.stranger_turns = StrangerTurns(scheduler)
        self.memory = memory
        self.buffers = ReceiveBuffers(memory=memory)
        self._is_check_planned = False
        memory.on_wait = self._plan_check

    def _plan_check(self) -> None:
        if not self._is_check_planned:
            self._is_check_planned = True
            self._scheduler.call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        """While requests wait for memory, clients that hold memory have to send."""
        self._is_check_planned = False
        if self.memory.waiting:
            self.memory.close_slow_senders()
            self._plan_check()


class Connection:
    __slots__ = (
        "_closed",
        "_fd",
        "_flush_planned",
        "_is_read_planned",
        "_is_reading",
        "_keeps_bytes",
        "_loop",
        "_machine",
        "_muting",
        "_outbox",
        "_outgoing",
        "_owner",
        "_reader",
        "_shared",
        "_stream",
        "_waits_for_turn",
        "context",
        "last_active",
    )

    def __init__(
        self,
        *,
        loop: EventLoop,
        world: World,
        stream: ByteStream,
        context: ConnectionContext,
        dispatcher: Handler,
        owner: ConnectionOwner,
        shared: SharedReadState,
        limits: ConnectionLimits,
        traits: StreamTraits = PLAIN,
        gate: Gate | None = None,
    ) -> None:
        self._loop = loop
        self._stream = stream
        self._keeps_bytes = traits.keeps_bytes
        self._fd = stream.fileno()
        self._owner = owner
        self._shared = shared
        self.context = context
        self.last_active = loop.time()
        self._machine = ServerConnection(
            handler=dispatcher,
            context=context,
            limits=limits,
            buffers=shared.buffers,
            on_answer_ready=self._on_answer_ready,
            gate=gate,
        )
        self._outgoing = self._machine.outgoing.parts
        self._outbox = Outbox(
            loop=loop,
            world=world,
            stream=stream,
            outgoing=self._machine.outgoing,
            owner=self,
            sends_files=traits.sends_files,
        )
        # Made when the client exceeds its quota for the first time.
        self._muting: Muting | None = None
        self._flush_planned = False
        self._is_read_planned = False
        # True while the requests of a client that has not logged in wait for their turn.
        self._waits_for_turn = False
        self._closed = False
        self._is_reading = True
        # Called when there is something to read. A client that has not logged in waits for its turn.
        self._reader = self._on_readable if gate is None else self._on_stranger_readable
        loop.add_reader(self._fd, self._reader)
        context.mute = self.mute

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self, reason: str | None = None) -> None:
        """Ends the connection at once; unsent bytes are lost."""
        if self._closed:
            return
        self._closed = True
        self._stop_reading()
        self.context.is_gone = True
        self.context.mute = None
        if self._muting is not None:
            self._muting.cancel()
        # References back to this object are dropped, so that a closed connection does not wait for the garbage
        # collector: collecting some thousands of them would hold up the loop for milliseconds.
        self._reader = _read_nothing
        self._outbox.close()
        self._machine.drop()
        self._stream.close()
        self._owner.connection_closed(self, reason)
        on_closed = self.context.on_closed
        if on_closed is not None and reason is None and not self._machine.is_stopping:
            on_closed()

    def mute(self, seconds: float) -> None:
        """Takes no further requests for this time. Requests that were started are answered (KIP-219)."""
        if self._closed:
            return
        if self._muting is None:
            self._muting = Muting(self._loop, on_check=self._close_if_client_left, on_over=self._on_mute_over)
        until = self._loop.time() + seconds
        if self._muting.extend(until):
            # A muted connection does not count as idle.
            self.last_active = until
            self._machine.mute()
            self._stop_reading()

    def _on_mute_over(self) -> None:
        self._machine.unmute()
        self._plan_responses()

    def _close_if_client_left(self) -> None:
        if not self._machine.frames.unread_bytes and is_closed_by_client(self._stream):
            self.close()

    def stop_reading(self) -> None:
        """Takes no further requests; requests that were started are still answered. For the shutdown of the node."""
        if self._closed:
            return
        self._machine.stop()
        self._stop_reading()
        self._close_if_finished()

    # -- reading ---------------------------------------------------------------------------------------------------

    def _on_stranger_readable(self) -> None:
        """Like `_on_readable`, for a client that has not logged in."""
        if not self._shared.stranger_turns.run(self._read_from_stranger):
            # The step waits for its turn, and the descriptor would be reported in every turn until then.
            self._stop_reading()

    def _read_from_stranger(self) -> None:
        if self._closed or self._machine.is_paused:
            # A paused connection starts to read when it is resumed.
            return
        if not self._machine.is_at_gate:
            self._reader = self._on_readable
            self._stop_reading()
        self._start_reading()
        self._on_readable()

    def _on_readable(self) -> None:
        if self._machine.is_paused:
            self._stop_reading()
            return
        self.last_active = self._loop.time()
        try:
            self._receive()
            if self._closed:
                return
            if not self._outgoing or not self._shared.send_turn.postpones(self):
                self._after_step()
        except OSError:
            self.close()
        except Exception:  # noqa: BLE001 - logged there
            # A defect closes this connection and does not affect other clients.
            self._fail()

    def _receive(self) -> None:
        machine = self._machine
        frames = machine.frames
        budget = RECEIVE_BYTES_MAX
        while True:
            targets = frames.targets()
            try:
                if len(targets) == 1:
                    received = self._stream.recv_into(targets[0])
                else:
                    received = self._stream.recvmsg_into(targets)[0]
            except (BlockingIOError, InterruptedError):
                return
            # A live view would prevent the frame's buffer from being reused for the next frame.
            del targets
            if received == 0:
                self.close()
                return
            frames.received(received)
            machine.take_frames()
            if machine.is_paused or not (frames.has_begun_frame or self._keeps_bytes):
                return
            budget -= received
            if budget <= 0:
                self._plan_read()
                return
            # Only the size of a large frame was requested. The rest has arrived with it and needs no turn of its own.

    def _after_step(self) -> None:
        """Sends the answers that are ready, then pauses, resumes or closes as the machine demands."""
        machine = self._machine
        unanswered = machine.unanswered
        if unanswered and unanswered[0].ready:
            machine.collect_answers(self._loop.time())
        is_sent = not self._outgoing or self._outbox.flush()
        if machine.is_paused and not self._closed:
            self._stop_reading()
            if is_sent:
                self._after_flush()
            elif machine.may_resume and not self._waits_for_turn:
                # The client need not read its answers yet. A pause after requests in a row ends in the next turn.
                self._plan_responses()

    def _start_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(self._fd, self._reader)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def _resume(self) -> None:
        machine = self._machine
        if not machine.may_resume or self._waits_for_turn:
            return
        if machine.is_at_gate:
            # The requests after a pause are work for a stranger, too.
            self._waits_for_turn = True
            self._shared.stranger_turns.run(self._resume_stranger)
        else:
            self._resume_now()

    def _resume_stranger(self) -> None:
        self._waits_for_turn = False
        if self._closed or not self._machine.is_paused or not self._machine.may_resume:
            return
        try:
            self._resume_now()
        except Exception:  # noqa: BLE001 - logged there
            self._fail()

    def _resume_now(self) -> None:
        machine = self._machine
        machine.resume()
        if self._closed:
            return
        if not machine.is_paused:
            self._start_reading()
            # Also if it was reading: the pause may have ended in the turn in which it began.
            self._plan_read()
        if not self._outgoing or not self._shared.send_turn.postpones(self):
            self._after_step()

    def _plan_read(self) -> None:
        """Reads on in the next turn: the descriptor does not become readable for bytes that the stream keeps."""
        if self._keeps_bytes and not self._is_read_planned:
            self._is_read_planned = True
            self._loop.call_soon(self._read_kept_bytes)

    def _read_kept_bytes(self) -> None:
        self._is_read_planned = False
        if not self._closed:
            self._reader()

    # -- answering -------------------------------------------------------------------------------------------------

    def _on_answer_ready(self) -> None:
        """A pending answer is ready, or demands to close. Called by the machine, on the loop's thread."""
        if self._closed:
            return
        if len(self._machine.unanswered) == 1 and not self._flush_planned and not self._machine.is_paused:
            self.send_answers()
        else:
            # The next answer may become ready in a moment: one write for all of them.
            self._plan_responses()

    def send_answers(self) -> None:
        """Sends the answers that are ready, outside this connection's own turn. Also called by `SendTurn`."""
        if self._closed:
            return
        try:
            self._after_step()
        except Exception:  # noqa: BLE001 - logged there
            # The caller has only resolved an answer. An error of this connection must not reach it.
            self._fail()

    def outbox_moved(self) -> None:
        """Bytes were sent after a wait. Called by the outbox."""
        if self._closed:
            return
        # It may be in the future: see `mute`.
        self.last_active = max(self.last_active, self._loop.time())
        if self._machine.is_paused:
            if not self._outgoing:
                self._after_flush()
            if not self._closed:
                self._resume()

    def outbox_waited(self, seconds: float) -> None:
        statistics = self.context.last_statistics
        if statistics is not None:
            statistics.count_send_wait(seconds)

    def outbox_failed(self, reason: str | None) -> None:
        self.close(reason)

    def _fail(self) -> None:
        """Closes the connection after a defect. Called while its exception is being handled."""
        logger.exception("connection %s failed", self.context.connection_id)
        self.close("an internal error")

    def _plan_responses(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._on_responses_ready)

    def _on_responses_ready(self) -> None:
        self._flush_planned = False
        if self._closed:
            return
        try:
            self._after_step()
            if self._machine.is_paused and not self._closed:
                self._resume()
        except Exception:  # noqa: BLE001 - logged there
            # The frames after the failed frame are lost, and so is the position in the stream.
            self._fail()

    def _after_flush(self) -> None:
        """All answers so far are sent: closes a paused connection that is ending, and resumes any other."""
        if self._machine.is_ending:
            self._close_if_finished()
        elif self._machine.is_paused and self._machine.may_resume and not self._waits_for_turn:
            # Planned for later: handling earlier requests at once would nest ever deeper in the stack.
            self._plan_responses()

    def _close_if_finished(self) -> None:
        if not self._closed and self._machine.is_finished:
            self.close(self._machine.close_reason)


def _read_nothing() -> None:
    """The reader of a closed connection."""
