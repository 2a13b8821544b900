"""IncrementalAlterConfigs (key 44), versions 0 to 1: sets, deletes, appends to or subtracts from single keys (KIP-339).

Levels of this node's loggers are changed at once. All other changes go to the controller, which checks the resulting
configuration and answers after the commit; settings of this broker, or of all brokers, are first checked against this
broker's properties file. Every resource succeeds or fails by itself; the answer keeps the request's order. Version 1 is
flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation
from ottla.broker.config_resources import (
    alter_loggers,
    altered,
    check_authorized,
    check_change,
    check_own_id,
    refusals,
)
from ottla.broker.context import RequestContext
from ottla.metadata.controller.configs import apply_operations
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, broker: Broker
) -> Deferred[IncrementalAlterConfigsResponse]:
    def settle(resource: AlterConfigsResource) -> bool | Deferred[None]:
        if resource.resource_type == ResourceType.BROKER_LOGGER and context.listener.is_controller:
            # As Kafka: the loggers of a controller are for its fellow nodes.
            check_authorized(context, Operation.CLUSTER_ACTION, resource)
        else:
            check_authorized(context, Operation.ALTER_CONFIGS, resource)
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            check_own_id(resource.resource_name, broker.node_id)
            alter_loggers(resource.configs, validate_only=request.validate_only)
            return True

        def change(target: ConfigResource, present: dict[str, str]) -> dict[str, str]:
            return apply_operations(target, present, resource.configs)

        return check_change(resource, context, broker, change)

    def ask_controller(resources: list[AlterConfigsResource]) -> Deferred[Sequence[AlterConfigsResourceResponse]]:
        forwarded = IncrementalAlterConfigsRequest(resources=resources, validate_only=request.validate_only)
        decided = broker.controller.ask(forwarded, context.for_controller())
        return decided.then(lambda response: response.responses)

    responses = altered(request.resources, settle, ask_controller, AlterConfigsResourceResponse)
    return responses.then(lambda answers: IncrementalAlterConfigsResponse(responses=answers))


def error_response(
    request: IncrementalAlterConfigsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=refusals(request.resources, error, AlterConfigsResourceResponse))


API = Api(
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("resources",), response=("responses",), size=200),),
    elements_max=20_000,
)
