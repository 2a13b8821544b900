"""The Peers port on the simulated network; clients of the simulation use it as well.

Drives the machine that real nodes use, `ottla.wire.connection.client`, as `ottla.host.peers` does: one connection for
each endpoint and purpose. When a connection fails, all its pending requests fail, and the next request opens a new
connection.
"""

from __future__ import annotations

from ottla.model.deferred import Deferred
from ottla.model.ports import Scheduler
from ottla.sim.network import Detour, Network, Socket
from ottla.sim.process import Process
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.client import ClientConnection
from ottla.wire.message import Message
from ottla.wire.peers import AskedRequest, Endpoint, Peers

__all__ = ["SimPeers"]

CONNECT_TIMEOUT_MS = 10_000
REQUESTS_WAITING_MAX = 1000
RESPONSE_BYTES_MAX = 128 * 1024 * 1024


class SimPeers:
    """Connections from one process to other processes."""

    def __init__(self, network: Network, process: Process, scheduler: Scheduler, *, host: str, client_id: str) -> None:
        self.network = network
        self.process = process
        self.scheduler = scheduler
        self.host = host
        self.client_id = client_id
        self.buffers = ReceiveBuffers()
        self._connections: dict[tuple[Endpoint, str], _PeerConnection] = {}

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        detours = self.network.detours
        if detours:
            detour = detours.get((self.host, request.API_KEY)) or detours.get((self.host, purpose))
            if detour is not None:
                return self._send_late(detour, endpoint, request, purpose, timeout_ms, version_max)
        return self._send(endpoint, request, purpose, timeout_ms, version_max)

    def _send_late(
        self, detour: Detour, endpoint: Endpoint, request: Message, purpose: str, timeout_ms: int, version_max: int
    ) -> Deferred[Message]:
        deferred: Deferred[Message] = Deferred()
        later = self.scheduler.call_later

        def send() -> None:
            self._send(endpoint, request, purpose, timeout_ms, version_max).when_done(
                lambda answer: later(detour.answer_seconds, answer.pass_to, deferred)
            )

        if detour.on_sent is not None:
            detour.on_sent(request)
        later(detour.request_seconds, send)
        return deferred

    def _send(
        self, endpoint: Endpoint, request: Message, purpose: str, timeout_ms: int, version_max: int
    ) -> Deferred[Message]:
        deferred: Deferred[Message] = Deferred()
        key = (endpoint, purpose)
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = _PeerConnection(self, endpoint, purpose)
        spec = API_SPECS[ApiKey(request.API_KEY)]
        connection.send(_Watched(request, spec, version_max, deferred, connection), timeout_ms)
        return deferred

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None:
        connection = self._connections.get((endpoint, purpose))
        if connection is not None:
            connection.close("no longer needed")

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.close("this node is stopping")

    def forget(self, key: tuple[Endpoint, str], connection: _PeerConnection) -> None:
        if self._connections.get(key) is connection:
            del self._connections[key]


class _Watched(AskedRequest):
    """A request whose answer is passed to the network's observer first."""

    __slots__ = ("_connection",)

    def __init__(
        self,
        request: Message,
        spec: object,
        version_max: int,
        deferred: Deferred[Message],
        connection: _PeerConnection,
    ) -> None:
        super().__init__(request, spec, version_max, deferred)  # type: ignore[arg-type]
        self._connection = connection

    def finish(self, response: Message) -> None:
        self._connection.observe(self.request, response)
        super().finish(response)


class _PeerConnection:
    def __init__(self, peers: SimPeers, endpoint: Endpoint, purpose: str) -> None:
        self._peers = peers
        self._endpoint = endpoint
        self._purpose = purpose
        self._machine = ClientConnection(
            str(endpoint),
            client_id=f"{peers.client_id}-{purpose}",
            software=("ottla", "sim"),
            response_bytes_max=RESPONSE_BYTES_MAX,
            waiting_max=REQUESTS_WAITING_MAX,
            buffers=peers.buffers,
        )
        self._is_closed = False
        self._is_connected = False
        self._setup_timer = peers.scheduler.call_later(CONNECT_TIMEOUT_MS / 1000, self.close, "not connected in time")
        self._socket = peers.network.connect(
            process=peers.process,
            source=peers.host,
            target=endpoint.host,
            port=endpoint.port,
            on_connected=self._on_connected,
            on_refused=self.close,
        )

    def send(self, pending: AskedRequest, timeout_ms: int) -> None:
        pending.timer = self._peers.scheduler.call_later(
            timeout_ms / 1000, self.close, f"no answer within {timeout_ms} ms"
        )
        self._machine.send(pending)
        self._flush()

    def observe(self, request: Message, response: Message) -> None:
        name = f"{self._peers.client_id} to {self._endpoint} ({self._purpose})"
        self._peers.network.observe(self, name, request, response)

    def close(self, reason: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._setup_timer.cancel()
        self._socket.close()
        self._peers.forget((self._endpoint, self._purpose), self)
        self._machine.fail(reason)

    def _on_connected(self, socket: Socket) -> None:
        if self._is_closed:
            return
        self._is_connected = True
        self._setup_timer.cancel()
        socket.take(on_readable=self._on_readable, on_writable=self._flush, on_closed=self.close)
        self._machine.open()
        self._flush()

    def _on_readable(self) -> None:
        machine = self._machine
        machine.received(self._socket.recv_into(machine.frames.targets()[0]))
        if machine.close_reason is not None:
            self.close(machine.close_reason)
        self._flush()

    def _flush(self) -> None:
        outgoing = self._machine.outgoing
        if not self._is_connected or self._is_closed:
            return
        try:
            while outgoing.parts:
                # A request has no regions of files.
                outgoing.send_joined(self._socket.send)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))


def _conforms(peers: SimPeers) -> Peers:
    """Never called. Makes the type checker verify that the port is implemented."""
    return peers
