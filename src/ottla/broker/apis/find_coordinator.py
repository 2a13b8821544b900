"""FindCoordinator (key 10), versions 0 to 6: finds the coordinator of a group or a transactional id.

- 1: key types, error messages; 3: flexible
- 4: several keys at once (KIP-699); 6: share groups (KIP-932)

The first request creates the topic of committed offsets, or of transactions, and its answer waits for the topic; Apache
Kafka lets the client ask again instead. The coordinator of a share group is answered as not available: share groups are
not built yet.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.cluster_view import endpoint_of
from ottla.broker.context import RequestContext
from ottla.broker.internal_topics import automatic_topic
from ottla.coordinator.group import OFFSETS_TOPIC
from ottla.coordinator.runtime.hashing import partition_for
from ottla.coordinator.txn import TRANSACTION_TOPIC
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

logger = logging.getLogger("ottla.broker.find_coordinator")

GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_VERSION_WITH_SEVERAL_KEYS = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6
NO_NODE = -1


class _Place(NamedTuple):
    code: ErrorCode
    node_id: int = NO_NODE
    host: str = ""
    port: int = NO_NODE


class _Kind(NamedTuple):
    """A kind of key: the topic of its coordinator's state, and the resource that a client needs access to."""

    topic: str
    resource_type: ResourceType
    refusal: ErrorCode


_KINDS = {
    GROUP: _Kind(OFFSETS_TOPIC, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: _Kind(
        TRANSACTION_TOPIC, ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ),
}
_REFUSALS = frozenset(kind.refusal for kind in _KINDS.values())


def handle(
    request: FindCoordinatorRequest, context: RequestContext, broker: Broker
) -> FindCoordinatorResponse | Deferred[FindCoordinatorResponse]:
    kind = _KINDS.get(request.key_type)
    if kind is None or kind.topic in broker.metadata.image.topics.by_name:
        return _response(request, context, broker)
    keys = [request.key] if context.api_version < FIRST_VERSION_WITH_SEVERAL_KEYS else request.coordinator_keys
    if not any(_may_describe(kind, key, context) for key in keys):
        return _response(request, context, broker)
    created = Deferred[FindCoordinatorResponse]()
    _create_topic(kind.topic, broker).when_done(lambda _: created.resolve(_response(request, context, broker)))
    return created


def error_response(request: FindCoordinatorRequest, version: int, error: KafkaError) -> FindCoordinatorResponse:
    place = _Place(error.code)
    if version < FIRST_VERSION_WITH_SEVERAL_KEYS:
        return _single(place)
    return FindCoordinatorResponse(coordinators=[_coordinator(key, place) for key in request.coordinator_keys])


def _response(request: FindCoordinatorRequest, context: RequestContext, broker: Broker) -> FindCoordinatorResponse:
    if context.api_version < FIRST_VERSION_WITH_SEVERAL_KEYS:
        return _single(_find(request.key_type, request.key, context, broker))
    return FindCoordinatorResponse(
        coordinators=[
            _coordinator(key, _find(request.key_type, key, context, broker)) for key in request.coordinator_keys
        ]
    )


def _single(place: _Place) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=place.code,
        error_message=_message(place.code),
        node_id=place.node_id,
        host=place.host,
        port=place.port,
    )


def _coordinator(key: str, place: _Place) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=place.node_id,
        host=place.host,
        port=place.port,
        error_code=place.code,
        # As Kafka: a refusal has no message here.
        error_message="" if place.code in _REFUSALS else _message(place.code),
    )


def _message(code: ErrorCode) -> str:
    return "" if code is ErrorCode.NONE else code.message


def _may_describe(kind: _Kind, key: str, context: RequestContext) -> bool:
    return context.allows(Operation.DESCRIBE, kind.resource_type, key)


def _find(key_type: int, key: str, context: RequestContext, broker: Broker) -> _Place:
    if key_type == SHARE and context.api_version >= FIRST_VERSION_WITH_SHARE_GROUPS:
        is_broker = context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return _Place(ErrorCode.COORDINATOR_NOT_AVAILABLE if is_broker else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    kind = _KINDS.get(key_type)
    if kind is None:
        return _Place(ErrorCode.INVALID_REQUEST)
    if not _may_describe(kind, key, context):
        return _Place(kind.refusal)
    image = broker.metadata.image
    topic = image.topics.by_name.get(kind.topic)
    if topic is None:
        return _Place(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = topic.partitions.get(partition_for(key, len(topic.partitions)))
    endpoint = None if partition is None else endpoint_of(image, partition.leader, context.listener_name)
    if partition is None or endpoint is None:
        return _Place(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Place(ErrorCode.NONE, partition.leader, endpoint.host, endpoint.port)


def _create_topic(name: str, broker: Broker) -> Deferred[CreateTopicsResponse]:
    topic = automatic_topic(name, broker.config)
    created = broker.controller.ask(CreateTopicsRequest(topics=[topic]))
    created.when_done(_log_failure)
    return created


def _log_failure(outcome: Deferred[CreateTopicsResponse]) -> None:
    if outcome.error is not None:
        logger.warning("a coordinator's topic could not be created: %s", outcome.error)
        return
    for result in outcome.result().topics:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.warning("%s could not be created: %s", result.name, result.error_message)


API = Api(
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("coordinator_keys",), response=("coordinators",), size=1_000),),
)
