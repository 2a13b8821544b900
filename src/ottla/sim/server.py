"""The serving end of a simulated connection: the twin of `ottla.host.connection`.

Requests are handled as they arrive, however many are under way; answers leave in request order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.apis import HandlerSpec
from ottla.broker.context import CloseConnection, ConnectionContext, ListenerInfo
from ottla.broker.pending import Part, PendingResponse
from ottla.sim.network import Listener, Socket
from ottla.sim.peers import joined

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import Dispatcher

__all__ = ["ServerConnection", "SimListener"]


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
        # Told the API key and the client's host when a request "arrives" and when it "is answered"; may kill the node.
        self.on_request = on_request
        self._broker = broker
        self._dispatcher = dispatcher
        self._info = info
        self._accepted = 0
        self._connections: dict[ServerConnection, None] = {}

    def open(self, listener: Listener, handlers: Mapping[int, HandlerSpec]) -> None:
        versions = {key: (spec.min_version, spec.max_version) for key, spec in handlers.items()}
        listener.open(self._on_accept, versions)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def stop_reading(self) -> None:
        for connection in list(self._connections):
            connection.stop_reading()

    def close(self) -> None:
        for connection in list(self._connections):
            connection.close()

    def forget(self, connection: ServerConnection) -> None:
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
        )
        self._connections[ServerConnection(self, self._dispatcher, socket, context)] = None


class ServerConnection:
    def __init__(self, owner: SimListener, dispatcher: Dispatcher, socket: Socket, context: ConnectionContext) -> None:
        self._owner = owner
        self._dispatcher = dispatcher
        self._socket = socket
        self._context = context
        self._answers: deque[tuple[int, PendingResponse]] = deque()
        self._is_planned = False
        self._is_stopping = False
        socket.take_frames(self._on_frame, self._on_closed)

    def response_ready(self) -> None:
        """A pending response got its bytes, or its order to close: called by the dispatcher."""
        if not self._is_planned and not self._socket.is_closed:
            self._is_planned = True
            self._socket.process.plan(0, self._send_answers)

    def stop_reading(self) -> None:
        self._is_stopping = True
        if not self._answers:
            self.close()

    def close(self) -> None:
        self._answers.clear()
        self._socket.close()
        self._owner.forget(self)

    def _on_closed(self, _reason: str) -> None:
        self._answers.clear()
        self._owner.forget(self)
        if self._context.on_closed is not None:
            self._context.on_closed()

    def _on_frame(self, frame: bytes) -> None:
        if self._is_stopping:
            return
        api_key = int.from_bytes(frame[:2], "big")
        if self._tell(api_key, "arrives"):
            return
        try:
            answer = self._dispatcher.dispatch(memoryview(bytearray(frame)), self._context, self)
        except CloseConnection:
            self.close()
            return
        if isinstance(answer, PendingResponse):
            self._answers.append((api_key, answer))
        elif answer is not None:
            if self._answers:
                self._answers.append((api_key, PendingResponse.answered(answer)))
            else:
                self._send(api_key, answer)

    def _send_answers(self) -> None:
        self._is_planned = False
        answers = self._answers
        while answers and answers[0][1].ready and not self._socket.is_closed:
            api_key, answer = answers.popleft()
            if answer.close_reason is not None:
                self.close()
                return
            if answer.parts is not None:
                self._send(api_key, answer.parts)
        if self._is_stopping and not answers:
            self.close()

    def _tell(self, api_key: int, moment: str) -> bool:
        """Whether that was the end of this node."""
        if self._owner.on_request is not None:
            self._owner.on_request(api_key, self._context.client_host, moment)
        return self._socket.is_closed

    def _send(self, api_key: int, parts: list[Part]) -> None:
        if self._tell(api_key, "is answered"):
            return
        try:
            frame = joined(parts)
        except OSError:
            # The client was promised bytes that cannot be read: there is no way to go on in this stream.
            self.close()
            return
        self._socket.send(frame)
