"""How one node asks another: a request goes out, its response comes back as a `Deferred`.

`ottla.host` implements this on sockets, a simulator on its own network. Whoever asks keeps the endpoint, chooses the
`purpose` and repeats what failed; the implementation keeps one connection for each endpoint and purpose, because
answers come back in request order and a heartbeat must not wait behind a fetch that the other side has parked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.model.deferred import Deferred
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.model.ports import Timer
    from ottla.wire.api import ApiSpec

__all__ = ["AskedRequest", "Endpoint", "PeerUnreachable", "Peers"]


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class PeerUnreachable(OSError):
    """No answer: not connected, connection lost, timed out, or the peer does not speak the API. May be tried again."""


class Peers(Protocol):
    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        """The response, in the highest version that both sides speak; fails with PeerUnreachable and nothing else."""

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None:
        """Ends the connection, if there is one; what waits for an answer on it fails."""


class AskedRequest:
    """A request that waits to be sent or answered, for those who implement `Peers`."""

    __slots__ = ("api_version", "deferred", "request", "spec", "timer", "version_max")

    def __init__(self, request: Message, spec: ApiSpec, version_max: int, deferred: Deferred[Message]) -> None:
        self.request = request
        self.spec = spec
        self.version_max = version_max
        # Chosen when it is sent.
        self.api_version = -1
        self.deferred = deferred
        self.timer: Timer | None = None

    def finish(self, response: Message) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.deferred.resolve(response)

    def fail(self, error: PeerUnreachable) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.deferred.fail(error)
