"""Requests from this broker to a broker of its cluster. A request to itself calls the handler, without a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis import HANDLERS, load
from ottla.broker.cluster_view import endpoint_of
from ottla.broker.context import ConnectionContext, RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.wire.peers import Endpoint, PeerUnreachable

if TYPE_CHECKING:
    from ottla.broker.apis.api import Api
    from ottla.broker.broker import Broker
    from ottla.wire.message import Message

__all__ = ["ask_broker"]


def ask_broker(broker: Broker, node_id: int, request: Message, *, purpose: str) -> Deferred[Message]:
    """The broker's response, in the newest version that both support. Fails only with PeerUnreachable.

    The request must not be changed afterwards, because a call within this broker passes the object itself.
    """
    if node_id == broker.node_id:
        return _ask_itself(broker, request)
    endpoint = endpoint_of(broker.metadata.image, node_id, broker.config.inter_broker_listener_name)
    if endpoint is None or broker.peers is None:
        return Deferred.failed(PeerUnreachable(f"broker {node_id} is not registered"))
    return broker.peers.send(
        Endpoint(endpoint.host, endpoint.port),
        request,
        purpose=purpose,
        timeout_ms=broker.config.request_timeout_ms,
    )


def _ask_itself(broker: Broker, request: Message) -> Deferred[Message]:
    spec = HANDLERS.get(request.API_KEY)
    if spec is None:
        return Deferred.failed(PeerUnreachable(f"this broker does not serve {type(request).__name__}"))
    api = load(request.API_KEY, spec)
    listener = broker.listeners.get(broker.config.inter_broker_listener_name)
    if listener is None:
        return Deferred.failed(PeerUnreachable("this broker has no open listener yet"))
    context = RequestContext(
        request.API_KEY,
        spec.max_version,
        0,
        None,
        ConnectionContext(listener=listener, client_host="", client_port=0),
        broker.world.clock.now_ms(),
    )
    try:
        response = api.handle(request, context, broker)
    except KafkaError as error:
        if api.error_response is None:
            return Deferred.failed(PeerUnreachable(str(error)))
        response = api.error_response(request, spec.max_version, error)
    if not isinstance(response, Deferred):
        return Deferred.resolved(response)
    return _with_error_responses(response, api, request, spec.max_version)


def _with_error_responses(response: Deferred[Message], api: Api, request: Message, version: int) -> Deferred[Message]:
    """Errors as a caller over the network gets them: an error response, or PeerUnreachable."""
    make_error = api.error_response

    def on_error(error: BaseException) -> Message:
        if isinstance(error, KafkaError) and make_error is not None:
            answer: Message = make_error(request, version, error)
            return answer
        raise PeerUnreachable(str(error)) from error

    return response.recover(BaseException, on_error)
