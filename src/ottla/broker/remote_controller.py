"""The active controller on another node, asked over the network.

A client's administrative request is wrapped in an Envelope with the client's principal (KIP-590) and tried again until
`request.timeout.ms` is over. Requests of the broker itself (`_PURPOSES`) are sent as they are and once only, because
their senders have their own schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.principal import PrincipalWithGroupsData

if TYPE_CHECKING:
    from ottla.metadata.controller import Caller, ControllerContext
    from ottla.model.ports import World
    from ottla.quorum.observer import ControllerAddresses
    from ottla.wire.message import Request
    from ottla.wire.peers import Endpoint, Peers

__all__ = ["RemoteController", "decode_principal", "encode_principal"]

R = TypeVar("R", bound=Message)

# Each purpose has its own connection: a heartbeat must not wait behind a topic with ten thousand partitions.
FORWARDING, SESSION, REPLICATION = "forwarding", "session", "partitions"

# The requests of the broker itself; all other requests are forwarded.
_PURPOSES: Mapping[int, str] = {
    ApiKey.ALTER_PARTITION: REPLICATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: REPLICATION,
    ApiKey.ALLOCATE_PRODUCER_IDS: FORWARDING,
    ApiKey.BROKER_REGISTRATION: SESSION,
    ApiKey.BROKER_HEARTBEAT: SESSION,
    ApiKey.CONTROLLER_REGISTRATION: SESSION,
}

RETRY_BACKOFF_SECONDS = 0.02
RETRY_BACKOFF_SECONDS_MAX = 0.1
PRINCIPAL_VERSION = 0


class RemoteController:
    """The active controller on another node."""

    def __init__(
        self,
        *,
        world: World,
        peers: Peers,
        controllers: ControllerAddresses,
        forwarding_timeout_ms: int,
        request_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """The timeouts are in milliseconds.

        `forwarding_timeout_ms` is for a forwarded request with all attempts, `request_timeout_ms` for one attempt and
        for a request of the broker itself, `session_timeout_ms` for registrations and heartbeats.
        """
        self._world = world
        self._peers = peers
        self._controllers = controllers
        self._forwarding_timeout_ms = forwarding_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._session_timeout_ms = session_timeout_ms
        controllers.on_moved.append(self._on_moved)

    def _on_moved(self, former: Endpoint) -> None:
        """Another node leads the quorum: fails pending requests, because the former leader may never answer."""
        for purpose in (FORWARDING, SESSION, REPLICATION):
            self._peers.disconnect(former, purpose=purpose)

    def ask(self, request: Request[R], context: ControllerContext | None = None) -> Deferred[R]:
        purpose = _PURPOSES.get(request.API_KEY)
        if purpose is None:
            return self._forward(request, context)
        timeout_ms = self._session_timeout_ms if purpose == SESSION else self._request_timeout_ms
        return self._send(request, purpose, timeout_ms).then(_checked)

    def _forward(self, request: Message, context: ControllerContext | None) -> Deferred[Any]:
        """Sends the request until it is answered or its time is over."""
        attempt = _Forwarded(request, None if context is None or context.caller is None else context)
        deadline = self._world.clock.monotonic() + self._forwarding_timeout_ms / 1000
        self._try(attempt, deadline)
        return attempt.deferred

    def _try(self, attempt: _Forwarded, deadline: float) -> None:
        remaining_ms = int((deadline - self._world.clock.monotonic()) * 1000)
        if remaining_ms <= 0:
            attempt.deferred.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller cannot be reached"))
            return

        def on_answer(answer: Deferred[Any]) -> None:
            if answer.error is not None or not attempt.take(answer.result()):
                self._world.scheduler.call_later(attempt.next_delay_seconds(), self._try, attempt, deadline)

        timeout_ms = min(remaining_ms, self._request_timeout_ms)
        self._send(attempt.wrapped, FORWARDING, timeout_ms).when_done(on_answer)

    def _send(self, request: Message, purpose: str, timeout_ms: int) -> Deferred[Any]:
        endpoint = self._controllers.current

        def on_answer(answer: Deferred[Any]) -> None:
            # A node that is not the active controller is asked again only after the other controllers.
            if answer.error is not None:
                self._controllers.failed(endpoint)
            elif _is_not_controller(answer.result()):
                self._controllers.refused(endpoint)

        response = self._peers.send(endpoint, request, purpose=purpose, timeout_ms=timeout_ms)
        response.when_done(on_answer)
        return response


class _Forwarded:
    """A forwarded request; in an Envelope if it is a client's."""

    __slots__ = ("_api_version", "_delay_seconds", "deferred", "request", "wrapped")

    def __init__(self, request: Message, context: ControllerContext | None) -> None:
        self.request = request
        self.deferred: Deferred[Any] = Deferred()
        self.wrapped: Message = request
        self._api_version = -1
        self._delay_seconds = RETRY_BACKOFF_SECONDS
        if context is not None:
            assert context.caller is not None
            self._api_version = context.api_version
            self.wrapped = _envelope(request, context.api_version, context.caller)

    def next_delay_seconds(self) -> float:
        """The delay before the next attempt; it grows with every attempt."""
        delay_seconds = self._delay_seconds
        self._delay_seconds = min(2 * delay_seconds, RETRY_BACKOFF_SECONDS_MAX)
        return delay_seconds

    def take(self, response: Any) -> bool:
        """Resolves with the response; returns False if the request has to be sent again."""
        if self._api_version < 0:
            if _is_not_controller(response):
                return False
            self.deferred.resolve(response)
            return True
        assert isinstance(response, EnvelopeResponse)
        if response.error_code == ErrorCode.NOT_CONTROLLER:
            return False
        if response.error_code or response.response_data is None:
            # The controller refused the Envelope, which the client did not send.
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                code = ErrorCode.UNSUPPORTED_VERSION
            self.deferred.fail(KafkaError(code, "the controller refused a forwarded request"))
            return True
        spec = API_SPECS[ApiKey(self.request.API_KEY)]
        position = 5 if spec.response_header_version(self._api_version) else 4
        try:
            answer, _ = decode(spec.response_class, memoryview(response.response_data), self._api_version, position)
        except MalformedMessage as error:
            self.deferred.fail(
                KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response of the controller is malformed: {error}")
            )
            return True
        self.deferred.resolve(answer)
        return True


def encode_principal(
    principal_type: str, principal_name: str, *, is_token_authenticated: bool = False, groups: tuple[str, ...] = ()
) -> bytes:
    data = PrincipalWithGroupsData(
        type=principal_type,
        name=principal_name,
        token_authenticated=is_token_authenticated,
        groups=list(groups),
    )
    return PRINCIPAL_VERSION.to_bytes(2, "big") + encode(data, PRINCIPAL_VERSION)


def decode_principal(data: memoryview) -> PrincipalWithGroupsData:
    """Raises MalformedMessage."""
    if len(data) < 2 or int.from_bytes(data[:2], "big") != PRINCIPAL_VERSION:
        raise MalformedMessage("the principal has an unknown version")
    principal, _ = decode(PrincipalWithGroupsData, data, PRINCIPAL_VERSION, 2)
    return principal


def _envelope(request: Message, api_version: int, caller: Caller) -> EnvelopeRequest:
    parts = request_parts(request.API_KEY, api_version, 0, caller.client_id, request)
    frame = b"".join(parts)  # type: ignore[arg-type]
    return EnvelopeRequest(
        # The request without the size prefix of the frame.
        request_data=frame[4:],
        request_principal=encode_principal(
            caller.principal_type,
            caller.principal_name,
            is_token_authenticated=caller.is_token_authenticated,
            groups=caller.groups,
        ),
        client_host_address=caller.address,
    )


def _is_not_controller(response: Any) -> bool:
    """True if the node is not the active controller. Some responses carry the error code in every topic or result."""
    if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    parts = getattr(response, "topics", None) or getattr(response, "results", None) or ()
    return any(getattr(part, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER for part in parts)


def _checked(response: Any) -> Any:
    """The response; raises its top-level error."""
    if response.error_code:
        code = ErrorCode.told(response.error_code)
        raise KafkaError(code, f"the controller answered {code.name}: {code.message}")
    return response
