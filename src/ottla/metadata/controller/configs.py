"""Decisions about configurations: of topics, brokers, all brokers, groups and client-metrics subscriptions.

IncrementalAlterConfigs changes single keys (KIP-339). The older AlterConfigs replaces the whole set and removes the
keys that it leaves out. Both check the resulting set as a whole before a record is written. Every resource of a request
succeeds or fails independently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, TypeVar

from ottla.metadata.controller.brokers import CORDONED_DIRECTORIES_LEVEL
from ottla.metadata.controller.decision import Decision, DecisionContext, ensure_bounded, repeated
from ottla.metadata.controller.elections import decide_unclean_elections
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.metadata.topic_names import check_topic_name
from ottla.model.config import (
    BROKER_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    ConfigKey,
    ConfigType,
    validate_topic_overrides,
)
from ottla.model.config.columns import INT_MAX
from ottla.model.config.dynamic import check_dynamic_change, check_dynamic_names, check_dynamic_values
from ottla.model.config.resource_keys import (
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    validate_client_metrics,
    validate_group,
)
from ottla.model.config.values import REQUIRED, format_value, is_number
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.metadata_records import ClearElrRecord, ConfigRecord

__all__ = [
    "AlterOperation",
    "CORDONED_DIRECTORIES_KEY",
    "apply_operations",
    "check_broker_values",
    "decide_alter_configs",
    "decide_incremental_alter_configs",
    "replacement",
]

R = TypeVar("R")
A = TypeVar("A")
Q = TypeVar("Q", incremental_alter_configs.AlterConfigsResource, alter_configs.AlterConfigsResource)

UNCLEAN_ELECTION_KEY = "unclean.leader.election.enable"
# A string of the protocol, and of the metadata log, is not longer. APPEND can make a longer value from two requests.
VALUE_BYTES_MAX = 32767


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


CORDONED_DIRECTORIES_KEY = "cordoned.log.dirs"


def decide_incremental_alter_configs(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, context: DecisionContext
) -> Decision[incremental_alter_configs.IncrementalAlterConfigsResponse]:
    def change(
        target: ConfigResource, resource: incremental_alter_configs.AlterConfigsResource, present: dict[str, str]
    ) -> dict[str, str]:
        return apply_operations(target, present, resource.configs)

    answer_class = incremental_alter_configs.AlterConfigsResourceResponse
    records, responses = _alter_all(request.resources, change, answer_class, context)
    response = incremental_alter_configs.IncrementalAlterConfigsResponse(responses=responses)
    return _with_elections(request, records, response, context)


def decide_alter_configs(
    request: alter_configs.AlterConfigsRequest, context: DecisionContext
) -> Decision[alter_configs.AlterConfigsResponse]:
    def change(
        _target: ConfigResource, resource: alter_configs.AlterConfigsResource, _present: dict[str, str]
    ) -> dict[str, str]:
        return replacement(resource.configs)

    records, responses = _alter_all(request.resources, change, alter_configs.AlterConfigsResourceResponse, context)
    return _with_elections(request, records, alter_configs.AlterConfigsResponse(responses=responses), context)


def _alter_all(
    resources: Sequence[Q],
    change: Callable[[ConfigResource, Q, dict[str, str]], dict[str, str]],
    answer_class: Callable[..., A],
    context: DecisionContext,
) -> tuple[list[Any], list[A]]:
    """The records and the answers; `change` computes the new set of a resource from the present set."""
    records: list[Any] = []
    answers = []
    duplicates = repeated((resource.resource_type, resource.resource_name) for resource in resources)
    for resource in resources:
        target = ConfigResource(resource.resource_type, resource.resource_name)
        named = {config.name for config in resource.configs}
        code, message = _alter_one(target, partial(change, target, resource), named, context, records, duplicates)
        answers.append(
            answer_class(error_code=code, error_message=message, resource_type=target.type, resource_name=target.name)
        )
    return records, answers


def _with_elections(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest | alter_configs.AlterConfigsRequest,
    records: list[Any],
    response: R,
    context: DecisionContext,
) -> Decision[R]:
    """Unclean elections that a new configuration allows do not wait for their timer."""
    if request.validate_only:
        return Decision([], response)
    names = {config.name for resource in request.resources for config in resource.configs}
    if UNCLEAN_ELECTION_KEY not in names:
        return Decision(records, response)

    def elect(context: DecisionContext) -> Decision[R]:
        return Decision(decide_unclean_elections(context).records, response)

    return Decision(records, response, following=elect) if records else elect(context)


def _alter_one(
    target: ConfigResource,
    change: Callable[[dict[str, str]], dict[str, str]],
    named: set[str],
    context: DecisionContext,
    records: list[Any],
    duplicates: set[tuple[int, str]],
) -> tuple[ErrorCode, str | None]:
    present = dict(context.image.configs.by_resource.get(target) or {})
    try:
        if target in duplicates:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names this resource more than once")
        _check_resource(target, context)
        wanted = change(dict(present))
        _check_values(target, present, wanted, context)
        changes = _records(target, present, wanted, named)
        _check_cordoning(target, changes, context)
        changes += _eligibility_records(changes, context)
    except KafkaError as error:
        return error.code, error.message
    records += changes
    ensure_bounded(len(records))
    return ErrorCode.NONE, None


def _check_cordoning(target: ConfigResource, changes: list[Any], context: DecisionContext) -> None:
    """Refuses to cordon directories (KIP-1066) at a level at which heartbeats do not report them.

    A removal is refused, too, as in Apache Kafka. No value can be left: the level cannot be lowered again.
    """
    level = context.image.features.metadata_version
    if target.type != ResourceType.BROKER or level >= CORDONED_DIRECTORIES_LEVEL:
        return
    if any(change.name == CORDONED_DIRECTORIES_KEY for change in changes):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{CORDONED_DIRECTORIES_KEY} needs metadata.version {CORDONED_DIRECTORIES_LEVEL}; it is {level}",
        )


def _records(
    target: ConfigResource, present: Mapping[str, str], wanted: Mapping[str, str], named: set[str]
) -> list[Any]:
    # Values of a broker are written even if they are equal, so that brokers reload the files that a value names.
    always = named if target.type == ResourceType.BROKER else set()
    return [
        ConfigRecord(resource_type=target.type, resource_name=target.name, name=name, value=wanted.get(name))
        for name in sorted({*present, *wanted})
        if present.get(name) != wanted.get(name) or name in always
    ]


def _eligibility_records(changes: list[Any], context: DecisionContext) -> list[Any]:
    """Clears eligible leader replicas after a change of `min.insync.replicas`, on which they depend (KIP-966)."""
    if not context.image.features.eligible_leader_replicas_enabled:
        return []
    records: list[Any] = []
    for change in changes:
        if change.name != "min.insync.replicas":
            continue
        if change.resource_type == ResourceType.TOPIC:
            records.append(ClearElrRecord(topic_name=change.resource_name))
        elif change.resource_name:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "with eligible leader replicas, min.insync.replicas must be the same for all brokers",
            )
        elif change.value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "with eligible leader replicas, min.insync.replicas needs a default for all brokers",
            )
        else:
            records.append(ClearElrRecord())
    return records


def _check_resource(target: ConfigResource, context: DecisionContext) -> None:
    if target.type == ResourceType.TOPIC:
        check_topic_name(target.name)
        if target.name not in context.image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {target.name!r} does not exist")
    elif target.type == ResourceType.BROKER:
        if target.name and not (is_number(target.name, at_most=INT_MAX) and target.name == str(int(target.name))):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the name of a broker resource is a broker id, or empty for all brokers, not {target.name!r}",
            )
        # Controllers have configurations of the same type, which are changed in the same way.
        nodes = (context.image.brokers, context.image.cluster.controllers)
        if target.name and not any(int(target.name) in registered for registered in nodes):
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {target.name} is not registered")
    elif target.type in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        if not target.name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the resource needs a name")
    else:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"resources of type {target.type} have no configuration in the metadata log"
        )


def _check_lengths(present: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    for name, text in wanted.items():
        # A character has at most four bytes.
        if present.get(name) != text and len(text) * 4 > VALUE_BYTES_MAX and len(text.encode()) > VALUE_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the value of {name} would have {len(text.encode())} bytes; at most {VALUE_BYTES_MAX} are allowed",
            )


def _check_values(
    target: ConfigResource, present: Mapping[str, str], wanted: Mapping[str, str], context: DecisionContext
) -> None:
    _check_lengths(present, wanted)
    if target.type == ResourceType.TOPIC:
        validate_topic_overrides(context.config, wanted, unchanged=present)
    elif target.type == ResourceType.GROUP:
        validate_group(context.config, wanted)
    elif target.type == ResourceType.CLIENT_METRICS:
        validate_client_metrics(wanted)
    else:
        check_broker_values(target, present, wanted, context.config)


def check_broker_values(
    target: ConfigResource, present: Mapping[str, str], wanted: Mapping[str, str], config: BrokerConfig
) -> BrokerConfig | None:
    """Checks a change of broker configurations as far as this node can; only the named broker can check everything.

    Returns the resulting configuration of this node, where the change concerns it.
    """
    changed = {name: text for name, text in wanted.items() if present.get(name) != text}
    check_dynamic_names(changed, for_all_brokers=not target.name)
    check_dynamic_values(changed)
    if not target.name:
        return check_dynamic_change(config, dynamic_defaults=wanted)
    if target.name == str(config.node_id):
        return check_dynamic_change(config, dynamic=wanted)
    return None


def replacement(configs: list[alter_configs.AlterableConfig]) -> dict[str, str]:
    """The set that AlterConfigs requests."""
    wanted: dict[str, str] = {}
    for config in configs:
        if config.name in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.name} is given more than once")
        if config.value is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{config.name} has no value; leave it out to restore the default"
            )
        wanted[config.name] = config.value
    return wanted


def apply_operations(
    target: ConfigResource, present: dict[str, str], configs: list[incremental_alter_configs.AlterableConfig]
) -> dict[str, str]:
    """The set that IncrementalAlterConfigs makes of the present set."""
    names = [config.name for config in configs]
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a key is given more than once")
    for config in configs:
        if config.config_operation not in tuple(AlterOperation):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown operation {config.config_operation}")
        operation = AlterOperation(config.config_operation)
        if operation is AlterOperation.DELETE:
            present.pop(config.name, None)
            continue
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.name} has no value")
        if operation is AlterOperation.SET:
            present[config.name] = config.value
        else:
            present[config.name] = _list_operation(
                target, present.get(config.name), config.name, config.value, operation
            )
    return present


def _list_operation(
    target: ConfigResource, present: str | None, name: str, value: str, operation: AlterOperation
) -> str:
    key = _table_of(target).get(name)
    if key is None or key.type is not ConfigType.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is not a list, so {operation.name.lower()} does not apply")
    if present is None and key.default is not REQUIRED:
        present = format_value(key.default)  # type: ignore[arg-type]
    parts = [part.strip() for part in (present or "").split(",") if part.strip()]
    operands = [part.strip() for part in value.split(",") if part.strip()]
    if operation is AlterOperation.APPEND:
        present_parts = frozenset(parts)
        parts += [part for part in operands if part not in present_parts]
    else:
        removed = frozenset(operands)
        parts = [part for part in parts if part not in removed]
    return ",".join(parts)


def _table_of(target: ConfigResource) -> Mapping[str, ConfigKey]:
    if target.type == ResourceType.TOPIC:
        return TOPIC_KEYS
    if target.type == ResourceType.GROUP:
        return GROUP_KEYS
    if target.type == ResourceType.CLIENT_METRICS:
        return CLIENT_METRICS_KEYS
    return BROKER_KEYS
