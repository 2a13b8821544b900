"""DescribeConfigs (key 32), versions 1 to 4: effective values, their sources and their defaults.

Resources are topics, this broker, the defaults of all brokers (a broker resource with an empty name), this broker's
loggers, groups and client-metrics subscriptions. A topic or broker is answered from the newest committed image and this
node's configuration. A group or subscription without configuration is answered with its defaults, as in Apache Kafka.

Version 3 adds types and documentation (KIP-524, KIP-569), 4 is flexible. A list of keys limits the answer; an empty
list means all, like a missing one. An unknown type of resource fails the whole request, any other error its resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation
from ottla.broker.config_resources import check_authorized, check_own_id
from ottla.broker.context import RequestContext
from ottla.broker.loggers import logger_levels
from ottla.metadata.image import ResourceType
from ottla.metadata.topic_names import check_topic_name
from ottla.model.config.effective import (
    EffectiveConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_logger,
    describe_topic,
)
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

_DESCRIBED = frozenset(kind for kind in ResourceType if kind is not ResourceType.UNKNOWN)


def handle(request: DescribeConfigsRequest, context: RequestContext, broker: Broker) -> DescribeConfigsResponse:
    for resource in request.resources:
        if resource.resource_type not in _DESCRIBED:
            return error_response(request, context.api_version, _unknown_type(resource.resource_type))
    return DescribeConfigsResponse(
        results=[_describe(resource, request, context, broker) for resource in request.resources]
    )


def error_response(
    request: DescribeConfigsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext, broker: Broker
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        check_authorized(context, Operation.DESCRIBE_CONFIGS, resource)
        entries = _entries(resource.resource_type, resource.resource_name, broker)
        wanted = frozenset(resource.configuration_keys or ())
        result.configs = [_result(entry, request) for entry in entries if not wanted or entry.name in wanted]
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message
    return result


def _entries(resource_type: int, name: str, broker: Broker) -> Iterable[EffectiveConfig]:
    configs = broker.metadata.image.configs
    if resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        if name not in broker.metadata.image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
        return describe_topic(broker.config, configs.of_topic(name))
    if resource_type == ResourceType.BROKER:
        if not name:
            return describe_cluster_defaults(broker.config.dynamic_defaults)
        check_own_id(name, broker.node_id)
        return describe_broker(broker.config)
    if resource_type == ResourceType.BROKER_LOGGER:
        check_own_id(name, broker.node_id)
        return [describe_logger(logger, level) for logger, level in logger_levels().items()]
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A group or a client-metrics subscription has a name.")
    if resource_type == ResourceType.GROUP:
        return describe_group(broker.config, configs.of(ResourceType.GROUP, name))
    return describe_client_metrics(configs.of(ResourceType.CLIENT_METRICS, name))


def _unknown_type(resource_type: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"There are no resources of type {resource_type}.")


def _result(entry: EffectiveConfig, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=entry.type,
        # The documentation of a logger is empty and not null, whether it was asked for or not.
        documentation=entry.documentation if request.include_documentation or not entry.documentation else None,
    )


API = Api(
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("resources",), response=("results",), size=8, is_heavy=True),),
    elements_max=200_000,
)
