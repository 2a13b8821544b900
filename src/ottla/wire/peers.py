"""The port through which a node sends requests to other nodes and receives each response as a `Deferred`.

`ottla.host` implements this on sockets, `ottla.sim` on its own network. The caller keeps the endpoint, chooses the
`purpose` and repeats failed requests. The implementation keeps one connection for each endpoint and purpose, because
requests of one connection are handled one after another: a heartbeat must not wait behind a fetch that is parked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.model.deferred import Deferred
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.model.ports import Timer
    from ottla.wire.api import ApiSpec

__all__ = ["AskedRequest", "Endpoint", "PeerUnreachable", "PeerUnsupported", "Peers"]


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class PeerUnreachable(OSError):
    """No response: no connection, connection lost, time-out, or an API that the peer lacks. May be retried."""


class PeerUnsupported(PeerUnreachable):
    """The peer does not speak the API, or no version of it that this side speaks."""


class Peers(Protocol):
    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        """Sends the request in the highest version that both nodes know. The only failure is PeerUnreachable.

        A `PackedRequest` may be answered with the result of its `read_response`.
        """

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None:
        """Closes the connection, if it is open; its pending requests fail."""


class AskedRequest:
    """A request that waits to be sent or answered; used by implementations of `Peers`."""

    __slots__ = ("api_version", "correlation_id", "deferred", "is_answered", "request", "spec", "timer", "version_max")

    def __init__(self, request: Message, spec: ApiSpec, version_max: int, deferred: Deferred[Message]) -> None:
        self.request = request
        self.spec = spec
        self.version_max = version_max
        # Both are chosen when the request is sent.
        self.api_version = -1
        self.correlation_id = 0
        self.is_answered = True
        self.deferred = deferred
        self.timer: Timer | None = None

    def finish(self, response: Message) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.deferred.resolve(response)

    def fail(self, error: PeerUnreachable) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if not self.deferred.done:
            self.deferred.fail(error)
