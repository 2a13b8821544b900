"""DescribeCluster (key 60), versions 0 to 2: brokers, cluster id and authorized operations (KIP-700).

- 1: endpoint type (KIP-919); a broker's listener lists brokers only, a controller's listener controllers only
- 2: fenced brokers on demand, marked as fenced (KIP-1073)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.cluster_view import alive_brokers, any_alive_broker
from ottla.broker.context import RequestContext
from ottla.model.errors import ErrorCode
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

_BROKERS, _CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, context: RequestContext, broker: Broker) -> DescribeClusterResponse:
    if context.listener.is_controller:
        return _controllers(request, context, broker)
    if request.endpoint_type != _BROKERS:
        is_known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this is a broker: ask a controller's listener for controllers"
            if is_known
            else f"there is no endpoint of type {request.endpoint_type}",
        )
    image = broker.metadata.image
    listener = context.listener_name
    alive = alive_brokers(image, listener)
    shown = alive
    if request.include_fenced_brokers:
        shown = [node for _, node in sorted(image.brokers.items()) if listener in node.endpoints]
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=any_alive_broker(alive, broker.world.random),
        brokers=[
            DescribeClusterBroker(
                broker_id=node.broker_id,
                host=node.endpoints[listener].host,
                port=node.endpoints[listener].port,
                rack=node.rack,
                is_fenced=node.fenced,
            )
            for node in shown
        ],
    )
    _add_operations(response, request, context)
    return response


def _add_operations(
    response: DescribeClusterResponse, request: DescribeClusterRequest, context: RequestContext
) -> None:
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = 0
        if context.would_allow(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            response.cluster_authorized_operations = context.authorizer.authorized_operations(
                context, ResourceType.CLUSTER, CLUSTER_NAME
            )


def _controllers(request: DescribeClusterRequest, context: RequestContext, broker: Broker) -> DescribeClusterResponse:
    """The answer of a controller's listener: the controllers, and which of them is active (KIP-919)."""
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClusterResponse(error_code=code, error_message=code.message)
    if request.endpoint_type != _CONTROLLERS:
        is_known = request.endpoint_type == _BROKERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this is a controller: ask a broker's listener for brokers"
            if is_known
            else f"there is no endpoint of type {request.endpoint_type}",
        )
    assert broker.quorum is not None, "only a controller has this listener"
    listener = context.listener_name
    response = DescribeClusterResponse(
        endpoint_type=_CONTROLLERS,
        cluster_id=broker.cluster_id,
        controller_id=broker.quorum.log.leader_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=controller_id,
                host=controller.endpoints[listener].host,
                port=controller.endpoints[listener].port,
            )
            for controller_id, controller in sorted(broker.metadata.image.cluster.controllers.items())
            if listener in controller.endpoints
        ],
    )
    _add_operations(response, request, context)
    return response


API = Api(request=DescribeClusterRequest, response=DescribeClusterResponse, handle=handle)
