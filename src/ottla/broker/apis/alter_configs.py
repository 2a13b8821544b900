"""AlterConfigs (key 33), versions 0 to 2: replaces the whole configuration of resources.

A key that the request leaves out goes back to its default; IncrementalAlterConfigs replaced this API for that reason
(KIP-339). Levels of loggers cannot be changed this way. The controller decides; settings of this broker, or of all
brokers, are first checked against this broker's properties file. Version 2 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation
from ottla.broker.config_resources import (
    altered,
    check_authorized,
    check_change,
    refusals,
)
from ottla.broker.context import RequestContext
from ottla.metadata.controller.configs import replacement
from ottla.metadata.image import ConfigResource
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(request: AlterConfigsRequest, context: RequestContext, broker: Broker) -> Deferred[AlterConfigsResponse]:
    def settle(resource: AlterConfigsResource) -> bool | Deferred[None]:
        check_authorized(context, Operation.ALTER_CONFIGS, resource)

        def change(_target: ConfigResource, _present: dict[str, str]) -> dict[str, str]:
            return replacement(resource.configs)

        return check_change(resource, context, broker, change)

    def ask_controller(resources: list[AlterConfigsResource]) -> Deferred[Sequence[AlterConfigsResourceResponse]]:
        forwarded = AlterConfigsRequest(resources=resources, validate_only=request.validate_only)
        decided = broker.controller.ask(forwarded, context.for_controller())
        return decided.then(lambda response: response.responses)

    responses = altered(request.resources, settle, ask_controller, AlterConfigsResourceResponse)
    return responses.then(lambda answers: AlterConfigsResponse(responses=answers))


def error_response(
    request: AlterConfigsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=refusals(request.resources, error, AlterConfigsResourceResponse))


API = Api(
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("resources",), response=("responses",), size=200),),
    elements_max=20_000,
)
