"""The context of a request: everything that a handler needs besides the body.

A `ConnectionContext` holds the values that all requests of a connection share: listener, principal, authorizer, quotas,
the client's address. A `RequestContext` adds the fields of the header. It is made for every request, so it has few
slots and computes other values on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from ottla.broker.authorization import AllowAll, Authorizer, DecisionCache, Operation, ResourceType
from ottla.metadata.controller import Caller, ControllerContext
from ottla.model.addresses import address_bytes
from ottla.model.values import Value
from ottla.wire.connection.server import CloseConnection

if TYPE_CHECKING:
    from ottla.broker.quotas.allowance import Allowance
    from ottla.broker.quotas.clients import MutationQuota
    from ottla.broker.quotas.metering import Metering
    from ottla.broker.statistics import ApiStatistics

__all__ = [
    "ANONYMOUS",
    "CloseConnection",
    "ConnectionContext",
    "ListenerInfo",
    "Principal",
    "PrincipalBuilder",
    "QuotaManager",
    "RequestContext",
    "Unlimited",
]


class Principal(NamedTuple):
    """The identity of a connection, for example `User:alice`."""

    type: str
    name: str
    # The groups that the certificate or the token of the login names; with a delegation token, those that its owner had
    # when it was created. ACLs of `Group:<name>` hold for their members.
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


class ListenerInfo(Value):
    """A listener as configured: its name, protocol, and the address given to clients (port filled in once bound)."""

    name: str
    security_protocol: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    # True for the listeners of controller.listener.names, on which other nodes reach this node's controller.
    is_controller: bool = False


class QuotaManager(Protocol):
    """Counts what clients use, and throttles them: `ottla.broker.quotas`."""

    # True if any user or client id has a quota. If false, no other method needs to be called.
    is_set: bool
    # True if a quota counts the time of requests, so that every request has to be timed.
    measures_time: bool
    # True if an address has a quota for its connections.
    limits_connections: bool

    def charge(
        self,
        context: RequestContext,
        metering: Metering,
        *,
        throttle_time_ms: int,
        handled_seconds: float,
        request_bytes: int,
    ) -> int:
        """Counts a request that is about to be answered, and mutes its connection if its client used too much.

        Takes the throttle time that the handler has set, and returns the one to answer with, in milliseconds.
        """

    def charge_bytes(self, context: RequestContext, request_bytes: int) -> int:
        """`charge` for a produce request that needs no other meter than that of its bytes."""

    def allowance(self, context: RequestContext) -> Allowance | None:
        """The client's allowance for producing and fetching; None while no quota is set."""

    def mutations(self, context: RequestContext, *, is_strict: bool) -> MutationQuota | None:
        """The quota for changes of topics; None without a quota."""

    def connected(self, address: str) -> float:
        """For how many seconds a new connection is held before it is closed; 0 accepts it."""


class Unlimited:
    """No quota is set, and no client is throttled."""

    __slots__ = ()

    is_set = False
    measures_time = False
    limits_connections = False

    def charge(
        self,
        context: RequestContext,  # noqa: ARG002
        metering: Metering,  # noqa: ARG002
        *,
        throttle_time_ms: int,  # noqa: ARG002
        handled_seconds: float,  # noqa: ARG002
        request_bytes: int,  # noqa: ARG002
    ) -> int:
        return 0

    def charge_bytes(self, context: RequestContext, request_bytes: int) -> int:  # noqa: ARG002
        return 0

    def allowance(self, context: RequestContext) -> Allowance | None:  # noqa: ARG002
        return None

    def mutations(self, context: RequestContext, *, is_strict: bool) -> MutationQuota | None:  # noqa: ARG002
        return None

    def connected(self, address: str) -> float:  # noqa: ARG002
        return 0.0


class ConnectionContext:
    """The part of a request's context that all requests of a connection share."""

    __slots__ = (
        "allowance",
        "authorizer",
        "client_host",
        "client_port",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "decisions",
        "is_forwarded",
        "is_gone",
        "is_token_authenticated",
        "last_statistics",
        "listener",
        "mute",
        "on_closed",
        "principal",
        "principal_builder",
        "quota",
    )

    def __init__(
        self,
        *,
        listener: ListenerInfo,
        client_host: str,
        client_port: int,
        connection_id: str = "",
        principal: Principal = ANONYMOUS,
        authorizer: Authorizer | None = None,
        quota: QuotaManager | None = None,
        principal_builder: PrincipalBuilder | None = None,
    ) -> None:
        self.listener = listener
        self.client_host = client_host
        self.client_port = client_port
        self.connection_id = connection_id
        self.principal_builder = principal_builder
        self.identify(principal)
        # True if the client has logged in with a delegation token (KIP-48).
        self.is_token_authenticated = False
        # True for the connection of a client of another broker, which forwards its request in an Envelope.
        self.is_forwarded = False
        self.authorizer: Authorizer = authorizer if authorizer is not None else AllowAll()
        self.quota: QuotaManager = quota if quota is not None else Unlimited()
        # The counters of the connection's last request, and of the way of its answer to the client.
        self.last_statistics: ApiStatistics | None = None
        # True once the connection is closed. Set by the connection.
        self.is_gone = False
        # Stops reading from the connection for a number of seconds. Set by the connection.
        self.mute: Callable[[float], object] | None = None
        # Called when the connection is closed, except after a protocol error and when this node stops.
        self.on_closed: Callable[[], object] | None = None
        # KIP-511: from the connection's ApiVersions request.
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"

    def identify(self, principal: Principal) -> None:
        """Sets the authenticated principal, or the principal that `principal.builder.class` makes of it."""
        builder = self.principal_builder
        self.principal = principal if builder is None else builder(self, principal)
        # Made with the first shortcut that needs a decision of an authorizer, for this principal and address: a builder
        # may name the client in another way when it logs in again.
        self.decisions: DecisionCache | None = None
        # The quotas of the principal with the client id of its last request. Made with the first request that has some.
        self.allowance: Allowance | None = None


PrincipalBuilder = Callable[[ConnectionContext, Principal], Principal]

T = TypeVar("T")


class RequestContext:
    """The header of a request, the time of its arrival, and its connection."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id", "received_ms")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        connection: ConnectionContext,
        received_ms: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.received_ms = received_ms

    @property
    def listener(self) -> ListenerInfo:
        return self.connection.listener

    @property
    def listener_name(self) -> str:
        return self.connection.listener.name

    @property
    def principal(self) -> Principal:
        return self.connection.principal

    @property
    def authorizer(self) -> Authorizer:
        return self.connection.authorizer

    @property
    def quota(self) -> QuotaManager:
        return self.connection.quota

    def allows(self, operation: Operation, resource_type: ResourceType, resource_name: str) -> bool:
        """True if the principal has the right. Every handler checks this before it acts."""
        return self.connection.authorizer.authorize(self, operation, resource_type, resource_name)

    def would_allow(self, operation: Operation, resource_type: ResourceType, resource_name: str) -> bool:
        """True if the principal has the right. For filters of lists, and for the first of two alternative rights.

        A denial does not refuse the request, so the audit does not record it.
        """
        return self.connection.authorizer.authorize_softly(self, operation, resource_type, resource_name)

    def allows_cached(self, operation: Operation, resource_type: ResourceType, resource_name: str) -> bool:
        """`allows` for shortcuts: the decision may be one that the authorizer has made for an earlier request."""
        connection = self.connection
        if type(connection.authorizer) is AllowAll:
            return True
        decisions = connection.decisions
        if decisions is None:
            decisions = connection.decisions = DecisionCache()
        return decisions.allows(self, operation, resource_type, resource_name)

    def mutations(self, *, strict_since: int) -> MutationQuota | None:
        """The quota for changes of topics. Requests of versions before `strict_since` are only throttled (KIP-599)."""
        quota = self.connection.quota
        return quota.mutations(self, is_strict=self.api_version >= strict_since) if quota.is_set else None

    def while_connected(self, steps: Generator[None, None, T]) -> Generator[None, None, T]:
        """The steps of long work for this request. They end with CloseConnection when the client has disconnected."""
        while True:
            if self.connection.is_gone:
                raise CloseConnection("the client has gone before its request was answered")
            try:
                next(steps)
            except StopIteration as end:
                value: T = end.value
                return value
            yield

    def for_controller(
        self,
        *,
        may_describe_configs: Callable[[str], bool] | None = None,
        mutations: MutationQuota | None = None,
    ) -> ControllerContext:
        """The part of this context that the controller needs, on whichever node it is."""
        connection = self.connection
        return ControllerContext(
            api_version=self.api_version,
            may_describe_configs=may_describe_configs,
            caller=Caller(
                principal_type=connection.principal.type,
                principal_name=connection.principal.name,
                groups=connection.principal.groups,
                is_token_authenticated=connection.is_token_authenticated,
                address=address_bytes(connection.client_host) or bytes(4),
                client_id=self.client_id,
            ),
            take_mutations=None if mutations is None else mutations.take,
            connection_id=connection.connection_id,
            is_local_only=connection.listener.is_controller,
        )
