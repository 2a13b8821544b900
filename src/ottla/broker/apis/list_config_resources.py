"""ListConfigResources (key 74), versions 0 to 1: names of resources with a configuration (KIP-1142).

Version 0 was ListClientMetricsResources (KIP-1000) and knows client-metrics subscriptions only. Version 1 takes the
types to list, and none means all: every topic, every broker and its loggers, and the groups and subscriptions that
have a configuration.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation
from ottla.broker.authorization import ResourceType as AclResourceType
from ottla.broker.context import RequestContext
from ottla.broker.long_answers import ENTRIES_PER_SLICE, answer_in_slices
from ottla.metadata.image import ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.model.deferred import Deferred
    from ottla.wire.packed import PackedResponse

__all__ = ["API"]

_LISTED = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def handle(
    request: ListConfigResourcesRequest, context: RequestContext, broker: Broker
) -> ListConfigResourcesResponse | Deferred[ListConfigResourcesResponse | PackedResponse]:
    if not context.allows(Operation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.api_version == 0:
        wanted = {int(ResourceType.CLIENT_METRICS)}
    else:
        wanted = set(request.resource_types) or {int(kind) for kind in _LISTED}
    if not wanted <= {int(kind) for kind in _LISTED}:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return answer_in_slices(_list(wanted, broker), context, broker)


def _list(wanted: set[int], broker: Broker) -> Generator[None, None, ListConfigResourcesResponse]:
    response = ListConfigResourcesResponse()
    resources = response.config_resources
    for kind in _LISTED:
        for name in _names(kind, broker) if kind in wanted else ():
            resources.append(ConfigResource(resource_name=name, resource_type=kind))
            if len(resources) % ENTRIES_PER_SLICE == 0:
                yield
    return response


def _names(kind: ResourceType, broker: Broker) -> Iterable[str]:
    image = broker.metadata.image
    if kind is ResourceType.TOPIC:
        return image.topics.by_name
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(node_id) for node_id in image.brokers]
    return [resource.name for resource in image.configs.by_resource if resource.type == kind]


API = Api(
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
