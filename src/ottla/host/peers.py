"""Connections from this node to others: sockets that drive the machine `ottla.wire.connection.client`.

A connection is opened by the first request for its endpoint and purpose. When anything goes wrong, every request that
waits on it fails, and the next request opens a new connection. Host names are resolved on a worker, because a name
server may be slow.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.host.loop import EventLoop
from ottla.host.peer_connection import PeerConnection
from ottla.model.deferred import Deferred
from ottla.model.ports import Workers
from ottla.replica.fetcher_pool import PURPOSE as REPLICA_FETCH
from ottla.wire.api import API_SPECS, ApiSpec
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.message import Message
from ottla.wire.peers import AskedRequest, Endpoint, PeerUnreachable

if TYPE_CHECKING:
    from ottla.host.peer_security import PeerSecurity

__all__ = ["PeerConnections", "PeerSettings"]

logger = logging.getLogger("ottla.host.peers")

# A response is handled before the next one is received. With several leaders, several responses are incomplete at once.
_LARGE_BUFFERS_MAX = 4

# By number, because converting a number to a member of the enumeration costs more than the lookup.
_SPECS = cast(Mapping[int, ApiSpec], API_SPECS)


# The number of endpoints whose last failure is kept, so that it is logged once.
FAILURES_KEPT_MAX = 1000


class PeerSettings(NamedTuple):
    """The settings of connections to peers."""

    setup_timeout_ms: int = 10_000
    # The limit of this timeout, which doubles after every failed attempt (KIP-601).
    setup_timeout_ms_max: int = 30_000
    # SO_RCVBUF of followers' fetches; -1 leaves it to the operating system.
    replica_receive_buffer_bytes: int = -1


class PeerConnections:
    """The Peers port on sockets; one connection for each endpoint and purpose."""

    def __init__(
        self,
        loop: EventLoop,
        *,
        client_id: str,
        response_bytes_max: int,
        workers: Workers | None = None,
        settings: PeerSettings | None = None,
        security: PeerSecurity | None = None,
    ) -> None:
        self._settings = settings or PeerSettings()
        # None if the listeners of the peers are PLAINTEXT.
        self.security = security
        # The last failure of a secured connection by endpoint, which is logged once.
        self._failures: dict[Endpoint, str] = {}
        self._loop = loop
        # Without workers, hosts must be given as addresses.
        self._workers = workers
        self._client_id = client_id
        self._response_bytes_max = response_bytes_max
        self._connections: dict[tuple[Endpoint, str], PeerConnection] = {}
        # The timeout of the next attempt, by endpoint and purpose, if the last attempt has failed.
        self._setup_timeouts_ms: dict[tuple[Endpoint, str], int] = {}
        self._buffers = ReceiveBuffers(buffers_max=_LARGE_BUFFERS_MAX)

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        deferred: Deferred[Message] = Deferred()
        pending = AskedRequest(request, _SPECS[request.API_KEY], version_max, deferred)
        try:
            connection = self._connections.get((endpoint, purpose)) or self._open(endpoint, purpose)
        except OSError as error:
            return Deferred.failed(PeerUnreachable(f"{endpoint}: {error}"))
        connection.send(pending, timeout_ms)
        return deferred

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None:
        connection = self._connections.get((endpoint, purpose))
        if connection is not None:
            connection.close("no longer needed")
        self._setup_timeouts_ms.pop((endpoint, purpose), None)

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.close("this node is stopping")

    def _open(self, endpoint: Endpoint, purpose: str) -> PeerConnection:
        key = (endpoint, purpose)
        settings = self._settings
        timeout_ms = self._setup_timeouts_ms.get(key, settings.setup_timeout_ms)

        def forget(connection: PeerConnection) -> None:
            if self._connections.get(key) is connection:
                del self._connections[key]
            if connection.failure is not None:
                self._tell_failure(endpoint, connection.failure)
            elif connection.was_connected:
                self._failures.pop(endpoint, None)
            if connection.was_connected:
                self._setup_timeouts_ms.pop(key, None)
            else:
                longer_ms = min(2 * timeout_ms, settings.setup_timeout_ms_max)
                self._setup_timeouts_ms[key] = max(longer_ms, timeout_ms)

        connection = PeerConnection(
            self._loop,
            endpoint,
            f"{self._client_id}-{purpose}",
            self._response_bytes_max,
            forget,
            self._workers,
            timeout_ms,
            settings.replica_receive_buffer_bytes if purpose.startswith(REPLICA_FETCH) else -1,
            self._buffers,
            self.security,
        )
        if not connection.closed:
            self._connections[key] = connection
        return connection

    def _tell_failure(self, endpoint: Endpoint, reason: str) -> None:
        """A handshake or a login has failed: an error of the configuration, which the operator has to see."""
        if self._failures.get(endpoint) != reason:
            if len(self._failures) >= FAILURES_KEPT_MAX:
                self._failures.clear()
            self._failures[endpoint] = reason
            logger.warning("no connection to the node at %s: %s", endpoint, reason)
