"""Settings of topics, brokers, groups and client metrics, and levels of loggers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import check, error_of
from ottla.model.errors import KafkaError
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

__all__ = [
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "Configs",
    "ResourceType",
]


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a value, by the names of Kafka's tools."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(NamedTuple):
    """A resource with settings. The default of all brokers has an empty name."""

    type: ResourceType
    name: str


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None


class ConfigChange(NamedTuple):
    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class Configs:
    """`admin.configs`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigEntry] | KafkaError]:
        """Every setting of every resource. A broker's own settings are requested from that broker."""
        descriptions: dict[ConfigResource, list[ConfigEntry] | KafkaError] = {}

        async def ask(node_id: int | None, node_resources: list[ConfigResource]) -> None:
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=None if keys is None else list(keys),
                    )
                    for resource in node_resources
                ],
                include_synonyms=synonyms,
                include_documentation=documentation,
            )
            response: DescribeConfigsResponse
            if node_id is None:
                response = await self._cluster.ask_any(request)
            else:
                response = await self._cluster.ask_broker(node_id, request)
            for result in response.results:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                descriptions[resource] = error_of(result.error_code, result.error_message) or _entries(result)

        groups = _by_node(resources)
        if any(node_id is not None for node_id in groups) and not self._cluster.metadata.brokers:
            await self._cluster.refresh([])
        await asyncio.gather(*[ask(node_id, node_resources) for node_id, node_resources in groups.items()])
        return descriptions

    async def alter(
        self, changes: dict[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Alters the given settings; all others stay unchanged."""
        errors: dict[ConfigResource, KafkaError | None] = {}

        async def ask(node_id: int | None, node_resources: list[ConfigResource]) -> None:
            request = IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configs=[
                            AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                            for change in changes[resource]
                        ],
                    )
                    for resource in node_resources
                ],
                validate_only=validate_only,
            )
            response: IncrementalAlterConfigsResponse
            if node_id is None:
                response = await self._cluster.ask_controller(
                    request, lambda answer: [response.error_code for response in answer.responses]
                )
            else:
                response = await self._cluster.ask_broker(node_id, request)
            for result in response.responses:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                errors[resource] = error_of(result.error_code, result.error_message)

        await asyncio.gather(*[ask(node_id, node_resources) for node_id, node_resources in _by_node(changes).items()])
        return errors

    async def resources(self, *types: ResourceType) -> list[ConfigResource]:
        """The resources of these types with settings of their own (KIP-1142)."""
        response: ListConfigResourcesResponse = await self._cluster.ask_any(
            ListConfigResourcesRequest(resource_types=[int(resource_type) for resource_type in types])
        )
        check(response.error_code)
        return [
            ConfigResource(ResourceType(resource.resource_type), resource.resource_name)
            for resource in response.config_resources
        ]


def _by_node(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Resources by node: a broker's settings and loggers by that broker, all others by any broker (None)."""
    by_node: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name.isdecimal()
        by_node.setdefault(int(resource.name) if own else None, []).append(resource)
    return by_node


def _entries(result: DescribeConfigsResult) -> list[ConfigEntry]:
    return [
        ConfigEntry(
            name=config.name,
            value=config.value,
            source=_source(config.config_source),
            is_sensitive=config.is_sensitive,
            is_read_only=config.read_only,
            synonyms=tuple(
                ConfigSynonym(synonym.name, synonym.value, _source(synonym.source)) for synonym in config.synonyms
            ),
            documentation=config.documentation,
        )
        for config in result.configs
    ]


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
