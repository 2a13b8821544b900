"""The serving end of a simulated connection: drives the machine that real nodes use, `ottla.wire.connection.server`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.context import CloseConnection, ConnectionContext, ListenerInfo
from ottla.model.ports import FileRegion
from ottla.sim.network import Listener, Socket
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.outgoing import Outgoing
from ottla.wire.connection.request_memory import CHECK_SECONDS, RequestMemory
from ottla.wire.connection.server import ConnectionLimits, ServerConnection
from ottla.wire.message import Part

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import Dispatcher

__all__ = ["SimConnection", "SimListener"]

# Far lower than on real nodes, so that connections really pause.
REQUESTS_UNANSWERED_MAX = 8
UNSENT_BYTES_MAX = 32 * 1024
# The memory of incomplete large requests: together they grow to the first size, and one request to the larger size.
REQUEST_MEMORY_FREE_BYTES = 256 * 1024
REQUEST_MEMORY_BYTES = 4 * 1024 * 1024


class SimListener:
    """Accepts connections for one dispatcher."""

    def __init__(
        self,
        broker: Broker,
        dispatcher: Dispatcher,
        info: ListenerInfo,
        *,
        on_request: Callable[[int, str, str], object] | None = None,
    ) -> None:
        # Called for every request with the API key, the client's host, and "arrives" or "is answered". May kill the
        # node.
        self.on_request = on_request
        self.dispatcher = dispatcher
        self._memory = RequestMemory(
            request_bytes_max=REQUEST_MEMORY_BYTES, limit_bytes=REQUEST_MEMORY_BYTES + REQUEST_MEMORY_FREE_BYTES
        )
        self._memory.on_wait = self._plan_check
        self._is_check_planned = False
        self.buffers = ReceiveBuffers(memory=self._memory)
        self.limits = ConnectionLimits(
            request_bytes_max=broker.config.socket_request_max_bytes,
            requests_unanswered_max=REQUESTS_UNANSWERED_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
        )
        self._broker = broker
        self._info = info
        self._accepted = 0
        self._connections: dict[SimConnection, None] = {}

    def _plan_check(self) -> None:
        if not self._is_check_planned:
            self._is_check_planned = True
            self._broker.world.scheduler.call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._is_check_planned = False
        if self._memory.waiting:
            self._memory.close_slow_senders()
            self._plan_check()

    def open(self, listener: Listener) -> None:
        listener.open(self._on_accept)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def now(self) -> float:
        return self._broker.world.clock.monotonic()

    def report_short(self, path: str) -> None:
        on_short_file = self._broker.world.files.on_short_file
        if on_short_file is not None:
            on_short_file(path)

    def stop_reading(self) -> None:
        for connection in list(self._connections):
            connection.stop_reading()

    def close(self) -> None:
        for connection in list(self._connections):
            connection.close()

    def forget(self, connection: SimConnection) -> None:
        self._connections.pop(connection, None)

    def _on_accept(self, socket: Socket) -> None:
        if socket.is_closed:
            return
        assert socket.peer is not None
        self._accepted += 1
        context = ConnectionContext(
            listener=self._info,
            client_host=socket.peer.local,
            client_port=40_000 + self._accepted % 20_000,
            connection_id=f"{self._info.host}:{self._info.port}-{socket.peer.local}-{self._accepted}",
            authorizer=self._broker.authorizer,
            quota=self._broker.quota,
            principal_builder=self._broker.principal_builder,
        )
        self._connections[SimConnection(self, socket, context)] = None


class SimConnection:
    def __init__(self, owner: SimListener, socket: Socket, context: ConnectionContext) -> None:
        self._owner = owner
        self._socket = socket
        self._context = context
        self._tap = _Tap(owner, socket, context)
        self._machine = ServerConnection(
            handler=self._tap,
            context=context,
            limits=owner.limits,
            buffers=owner.buffers,
            on_answer_ready=self._plan,
            outgoing=_TappedOutgoing(self._tap),
        )
        self._is_planned = False
        self._muted_until = 0.0
        context.mute = self._mute
        socket.take(on_readable=self._on_readable, on_writable=self._on_writable, on_closed=self._on_closed)

    def stop_reading(self) -> None:
        self._machine.stop()
        # Planned, because the caller may be a request of this connection.
        self._plan()

    def close(self) -> None:
        self._context.is_gone = True
        self._machine.drop()
        self._socket.close()
        self._owner.forget(self)

    def _on_closed(self, _reason: str) -> None:
        self._context.is_gone = True
        self._machine.drop()
        self._owner.forget(self)
        if self._context.on_closed is not None:
            self._context.on_closed()

    def _on_readable(self) -> None:
        received = 0
        for target in self._machine.frames.targets():
            try:
                count = self._socket.recv_into(target)
            except BlockingIOError:
                break
            received += count
            if count < len(target):
                break
        self._machine.received(received)
        self._after_step()

    def _on_writable(self) -> None:
        self._after_step()

    def _plan(self) -> None:
        if not self._is_planned and not self._socket.is_closed:
            self._is_planned = True
            self._socket.process.plan(0, self._on_planned)

    def _on_planned(self) -> None:
        self._is_planned = False
        if self._socket.is_closed:
            return
        self._after_step()
        if self._machine.is_paused and self._machine.may_resume and not self._socket.is_closed:
            self._machine.resume()
            self._after_step()

    def _after_step(self) -> None:
        """Sends the answers that are ready, then pauses, resumes or closes as the machine demands."""
        machine, socket = self._machine, self._socket
        if not socket.is_closed:
            machine.collect_answers(self._owner.now())
        self._send()
        if socket.is_closed:
            return
        machine.invariants()
        if machine.is_finished:
            self.close()
            return
        if machine.is_paused and machine.may_resume:
            self._plan()
        if machine.is_paused:
            self._tap.count("connection paused")
        socket.read(not machine.is_paused)

    def _send(self) -> None:
        outgoing, socket = self._machine.outgoing, self._socket
        try:
            while outgoing.parts and not socket.is_closed:
                first = outgoing.parts[0]
                if isinstance(first, FileRegion):
                    data = first.read()
                    if len(data) < len(first):
                        self._owner.report_short(first.file.path)
                        raise OSError(f"{first} ends before its announced length")
                    outgoing.replace_first(data)
                    continue
                outgoing.sent(socket.send(_joined(outgoing)))
        except BlockingIOError:
            self._tap.count("send blocked")
        except OSError:
            # The response has announced bytes that cannot be read or sent. The stream cannot continue.
            self.close()

    def _mute(self, seconds: float) -> None:
        until = self._owner.now() + seconds
        if until > self._muted_until:
            self._muted_until = until
            self._machine.mute()
            self._socket.read(False)
            self._tap.count("connection muted")
            self._socket.process.plan(round(seconds * 1e6) + 1, self._on_mute_over)

    def _on_mute_over(self) -> None:
        if self._owner.now() >= self._muted_until:
            self._machine.unmute()
            self._plan()


class _Tap:
    """A dispatcher that reports every request that arrives and every answer that is sent."""

    def __init__(self, owner: SimListener, socket: Socket, context: ConnectionContext) -> None:
        self._owner = owner
        self._socket = socket
        self._context = context
        # The API keys of pending requests, by correlation id.
        self._api_keys: dict[bytes, int] = {}
        self.starts_behind = owner.dispatcher.starts_behind
        self.answered = owner.dispatcher.answered

    def dispatch(self, frame: memoryview, connection: ConnectionContext, waiter: Any) -> Any:
        api_key = int.from_bytes(frame[:2], "big")
        self._api_keys[bytes(frame[4:8])] = api_key
        self._report(api_key, "arrives")
        if self._socket.is_closed:
            raise CloseConnection("the node has ended")
        return self._owner.dispatcher.dispatch(frame, connection, waiter)

    def report_answer(self, parts: list[Part]) -> bool:
        """Reports the answer. Returns False if the node was killed and cannot send it."""
        header = parts[0]
        assert not isinstance(header, FileRegion)
        self._report(self._api_keys.pop(bytes(header[4:8])), "is answered")
        return not self._socket.is_closed

    def count(self, name: str) -> None:
        self._socket.process.kernel.counts[name] += 1

    def _report(self, api_key: int, moment: str) -> None:
        if self._owner.on_request is not None:
            self._owner.on_request(api_key, self._context.client_host, moment)


class _TappedOutgoing(Outgoing):
    __slots__ = ("_tap",)

    def __init__(self, tap: _Tap) -> None:
        super().__init__()
        self._tap = tap

    def put(self, parts: list[Part]) -> None:
        if self._tap.report_answer(parts):
            super().put(parts)


def _joined(outgoing: Outgoing) -> bytes:
    """The buffers up to the next region."""
    buffers: list[bytes | bytearray | memoryview] = []
    for part in outgoing.parts:
        if isinstance(part, FileRegion):
            break
        buffers.append(part)
    return b"".join(buffers)
