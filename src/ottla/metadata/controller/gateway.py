"""The interface to the active controller: one method, wherever the controller runs.

`ControllerGateway.ask` is implemented three times: by the controller of this process (`Controller`), by the client of a
controller on another node (`ottla.broker.remote_controller`), and by the router between the two on a node with the
controller role (`ottla.broker.routed_controller`). The type of the request determines the type of the response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.wire.message import Message, Request

__all__ = ["Caller", "ControllerContext", "ControllerGateway"]

R = TypeVar("R", bound="Message")


class Caller(NamedTuple):
    """The client that sent a request; a broker passes it to a remote controller in an Envelope (KIP-590)."""

    principal_type: str
    principal_name: str
    # The client's IP address in network byte order: 4 or 16 bytes.
    address: bytes
    client_id: str | None
    # True if the client has logged in with a delegation token.
    is_token_authenticated: bool = False
    groups: tuple[str, ...] = ()


class ControllerContext(NamedTuple):
    """The context of a request: everything that the controller needs besides the body."""

    api_version: int = 32767
    # True for a topic whose configuration the caller may see; None allows every topic.
    may_describe_configs: Callable[[str], bool] | None = None
    # None for a request of the node itself.
    caller: Caller | None = None
    # See `DecisionContext`; None without a quota. A remote controller applies its own quota instead.
    take_mutations: Callable[[int], object] | None = None
    # The connection that the request came on; a heartbeat ties the broker's session to it (`Liveness.lost`).
    connection_id: str = ""
    # True for a request from a controller's listener. Only the controller of this process may answer it: if that
    # controller is not active, the answer is NOT_CONTROLLER and the sender looks for the active one.
    is_local_only: bool = False


class ControllerGateway(Protocol):
    def ask(self, request: Request[R], context: ControllerContext | None = None) -> Deferred[R]:
        """The controller's response. Fails with KafkaError, and with PeerUnreachable where a network is in between."""
