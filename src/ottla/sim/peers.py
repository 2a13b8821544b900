"""The Peers port on the simulated network; clients of the simulation use it as well.

The twin of `ottla.host.peers`: one connection for each endpoint and purpose, requests pipelined, answers in order, and
when anything goes wrong every request under way fails and the next one opens a new connection. Versions are agreed
without an ApiVersions request: the network tells what the other side serves.
"""

from __future__ import annotations

from collections import deque

from ottla.model.deferred import Deferred
from ottla.model.ports import FileRegion, Scheduler
from ottla.sim.network import Network, Socket
from ottla.sim.process import Process
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, UnsupportedVersion, decode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message, Part
from ottla.wire.peers import AskedRequest, Endpoint, Peers, PeerUnreachable

__all__ = ["SimPeers", "joined"]

CONNECT_TIMEOUT_MS = 10_000
REQUESTS_WAITING_MAX = 1000


class SimPeers:
    """Connections from one process to others."""

    def __init__(self, network: Network, process: Process, scheduler: Scheduler, *, host: str, client_id: str) -> None:
        self.network = network
        self.process = process
        self.scheduler = scheduler
        self.host = host
        self.client_id = client_id
        self._connections: dict[tuple[Endpoint, str], _PeerConnection] = {}

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        deferred: Deferred[Message] = Deferred()
        asked = AskedRequest(request, API_SPECS[ApiKey(request.API_KEY)], version_max, deferred)
        key = (endpoint, purpose)
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = _PeerConnection(self, endpoint, purpose)
        connection.send(asked, timeout_ms)
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


class _PeerConnection:
    def __init__(self, peers: SimPeers, endpoint: Endpoint, purpose: str) -> None:
        self._peers = peers
        self._endpoint = endpoint
        self._purpose = purpose
        self._unsent: deque[AskedRequest] = deque()
        self._unanswered: deque[AskedRequest] = deque()
        self._correlation_id = 0
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

    def send(self, asked: AskedRequest, timeout_ms: int) -> None:
        if len(self._unsent) + len(self._unanswered) >= REQUESTS_WAITING_MAX:
            asked.fail(PeerUnreachable(f"{self._endpoint} has too many unanswered requests"))
            return
        asked.timer = self._peers.scheduler.call_later(
            timeout_ms / 1000, self.close, f"no answer within {timeout_ms} ms"
        )
        if self._is_connected:
            self._write(asked)
        else:
            self._unsent.append(asked)

    def close(self, reason: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._setup_timer.cancel()
        self._socket.close()
        self._peers.forget((self._endpoint, self._purpose), self)
        error = PeerUnreachable(f"{self._endpoint}: {reason}")
        failing = [*self._unanswered, *self._unsent]
        self._unanswered.clear()
        self._unsent.clear()
        for asked in failing:
            asked.fail(error)

    def _on_connected(self, socket: Socket) -> None:
        if self._is_closed:
            return
        self._is_connected = True
        self._setup_timer.cancel()
        socket.take_frames(self._on_frame, self.close)
        while self._unsent and not self._is_closed:
            self._write(self._unsent.popleft())

    def _write(self, asked: AskedRequest) -> None:
        spec = asked.spec
        # A port that is bound but not open yet has told nothing: then the newest version is tried.
        theirs = self._socket.versions.get(int(spec.key))
        if theirs is None and self._socket.versions:
            asked.fail(PeerUnreachable(f"{self._endpoint} does not speak {spec.name}"))
            return
        highest = spec.request_max_version if theirs is None else theirs[1]
        asked.api_version = min(asked.version_max, spec.schema_max_version, highest)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        client_id = f"{self._peers.client_id}-{self._purpose}"
        try:
            parts = request_parts(int(spec.key), asked.api_version, self._correlation_id, client_id, asked.request)
        except UnsupportedVersion as error:
            asked.fail(PeerUnreachable(f"{self._endpoint} speaks an older {spec.name}: {error}"))
            return
        self._unanswered.append(asked)
        self._socket.send(joined(parts))

    def _on_frame(self, frame: bytes) -> None:
        if not self._unanswered:
            self.close("a response nobody asked for")
            return
        asked = self._unanswered.popleft()
        header_size = 5 if asked.spec.response_header_version(asked.api_version) else 4
        try:
            # A buffer of its own: record bytes in it are kept and written to a log.
            response, _ = decode(
                asked.spec.response_class, memoryview(bytearray(frame)), asked.api_version, header_size
            )
        except MalformedMessage as error:
            asked.fail(PeerUnreachable(f"{self._endpoint}: malformed response: {error}"))
            self.close("malformed response")
            return
        asked.finish(response)


def joined(parts: list[Part]) -> bytes:
    """A frame's bytes without the size in front, which the simulated network does not need."""
    pieces: list[bytes | bytearray | memoryview] = []
    for part in parts:
        if isinstance(part, FileRegion):
            data = part.read()
            if len(data) < len(part):
                raise OSError(f"{part} ends before its announced length")
            pieces.append(data)
        else:
            pieces.append(part)
    return b"".join(pieces)[4:]


def _conforms(peers: SimPeers) -> Peers:
    """Never called: the type checker proves here that the port is implemented."""
    return peers
