"""Envelope (key 58), version 0: a client's request that a broker forwards with the client's principal (KIP-590).

The request inside is handled as if the client had sent it to this listener; its answer goes back inside the answer. The
code of the envelope itself is for errors of the broker that forwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis import CONTROLLER_HANDLERS, FORWARDABLE
from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import CloseConnection, ConnectionContext, Principal
from ottla.broker.pending import Part, PendingResponse
from ottla.broker.remote_controller import decode_principal
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.codec import MalformedMessage
from ottla.wire.framing import parse_request_header
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.metadata.controller import Controller

__all__ = ["API"]

_SIZE_BYTES = 4


def handle(
    request: EnvelopeRequest, context: RequestContext, broker: Broker
) -> EnvelopeResponse | Deferred[EnvelopeResponse]:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if broker.local_controller is None or not broker.local_controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        principal = decode_principal(memoryview(request.request_principal or b""))
    except MalformedMessage:
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    frame = memoryview(request.request_data)
    try:
        header = parse_request_header(frame)
    except MalformedMessage:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    handler = CONTROLLER_HANDLERS.get(header.api_key)
    if handler is None or header.api_key not in FORWARDABLE:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not handler.min_version <= header.api_version <= handler.max_version:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    outer = context.connection
    inner = ConnectionContext(
        listener=outer.listener,
        client_host=_host(memoryview(request.client_host_address)),
        client_port=0,
        connection_id=outer.connection_id,
        principal=Principal(principal.type, principal.name, tuple(principal.groups)),
        authorizer=outer.authorizer,
        quota=outer.quota,
    )
    inner.is_forwarded, inner.is_token_authenticated = True, principal.token_authenticated
    return _Embedded(broker.local_controller).dispatch(broker, frame, inner)


class _Embedded:
    """Waits for the answer to the request inside."""

    __slots__ = ("_answer", "_controller", "_pending")

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._answer: Deferred[EnvelopeResponse] = Deferred()
        self._pending: PendingResponse | None = None

    def dispatch(self, broker: Broker, frame: memoryview, connection: ConnectionContext) -> Deferred[EnvelopeResponse]:
        assert broker.controller_dispatcher is not None, "only a controller has this listener"
        try:
            answer = broker.controller_dispatcher.dispatch(frame, connection, self)
        except CloseConnection:
            self._answer.resolve(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
            return self._answer
        if isinstance(answer, PendingResponse):
            self._pending = answer
            if answer.ready:
                self.response_ready()
        else:
            self._finish(answer)
        return self._answer

    def response_ready(self) -> None:
        pending = self._pending
        # None if the answer became ready within `dispatch`, which then finishes it.
        if pending is not None and not self._answer.done:
            if pending.close_reason is not None:
                self._answer.resolve(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
            else:
                self._finish(pending.parts)

    def _finish(self, parts: list[Part] | None) -> None:
        assert parts is not None, "every request that may be forwarded has an answer"
        if not self._controller.is_active:
            # This controller is no longer active. The broker asks the next controller.
            self._answer.resolve(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
            return
        frame = b"".join(parts)  # type: ignore[arg-type]
        self._answer.resolve(EnvelopeResponse(response_data=frame[_SIZE_BYTES:]))


def _host(address: memoryview) -> str:
    if len(address) == 4:
        return ".".join(str(number) for number in address)
    return ":".join(f"{int.from_bytes(address[at : at + 2], 'big'):x}" for at in range(0, len(address), 2))


API = Api(request=EnvelopeRequest, response=EnvelopeResponse, handle=handle)
