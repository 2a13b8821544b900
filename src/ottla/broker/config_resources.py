"""What the APIs about configuration share: who may ask about which resource, and changing levels of loggers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ottla.broker.authorization import CLUSTER_NAME, Operation
from ottla.broker.authorization import ResourceType as AclResourceType
from ottla.broker.loggers import LEVELS, ROOT, logger_levels, set_logger_level
from ottla.metadata.controller.configs import check_broker_values
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.config.columns import INT_MAX
from ottla.model.config.values import is_number
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = [
    "Triage",
    "alter_loggers",
    "answers",
    "check_authorized",
    "check_named",
    "check_on_this_broker",
    "check_own_id",
    "refusals",
    "triage",
]

_SET = 0
_DELETE = 1


class _Resource(Protocol):
    resource_type: int
    resource_name: str


class _LoggerChange(Protocol):
    name: str
    config_operation: int
    value: str | None


_REFUSALS = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


def check_authorized(context: RequestContext, operation: Operation, resource: _Resource) -> None:
    """Topics and groups have configurations of their own to guard; everything else belongs to the cluster."""
    if resource.resource_type == ResourceType.TOPIC:
        kind, name = AclResourceType.TOPIC, resource.resource_name
    elif resource.resource_type == ResourceType.GROUP:
        kind, name = AclResourceType.GROUP, resource.resource_name
    else:
        kind, name = AclResourceType.CLUSTER, CLUSTER_NAME
    if not context.allows(operation, kind, name):
        raise KafkaError(_REFUSALS[kind])


def check_own_id(name: str, node_id: int) -> None:
    """A node answers for itself only: clients send such a request to the broker it is about."""
    if not is_number(name, at_most=INT_MAX):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A broker is named by its number, not by {name[:40]!r}.")
    if int(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"The request is about broker {name}, but it came to broker {node_id}."
        )


def check_named(resource: _Resource) -> None:
    """Only brokers have a configuration for all of them together, under an empty name."""
    if not resource.resource_name and resource.resource_type != ResourceType.BROKER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Only brokers can be configured all at once; name the resource.")


def check_on_this_broker(
    resource: _Resource, broker: Broker, change: Callable[[ConfigResource, dict[str, str]], dict[str, str]]
) -> None:
    """Holds a change for this broker, or for all, against what only this node knows: its properties file.

    The controller has a file of its own. What it cannot judge would be accepted, shown, and never applied here.
    `change` makes the new set of a resource from the present one.
    """
    target = ConfigResource(resource.resource_type, resource.resource_name)
    present = broker.metadata.image.configs.by_resource.get(target) or {}
    check_broker_values(target, present, change(target, dict(present)), broker.config)


R = TypeVar("R", bound=_Resource)
A = TypeVar("A")


class Triage(NamedTuple, Generic[R]):
    """The resources of a request, in its order: those that are done with here, and those the controller decides."""

    # None where the resource is done or forwarded without complaint.
    refusals: list[KafkaError | None]
    # Whether the controller decides about the resource at the same place.
    is_forwarded: list[bool]
    forwarded: list[R]


def triage(resources: Sequence[R], settle: Callable[[R], bool]) -> Triage[R]:
    """`settle` says whether it has dealt with a resource itself, or raises why the resource is refused."""
    repeated = _repeated(resources)
    outcome: Triage[R] = Triage([], [], [])
    for resource in resources:
        refusal, is_settled = None, True
        try:
            if (resource.resource_type, resource.resource_name) in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "The request names this resource more than once.")
            is_settled = settle(resource)
        except KafkaError as error:
            refusal = error
        outcome.refusals.append(refusal)
        outcome.is_forwarded.append(not is_settled)
        if not is_settled:
            outcome.forwarded.append(resource)
    return outcome


def answers(
    resources: Sequence[R], outcome: Triage[R], decided: Sequence[A], answer_class: Callable[..., A]
) -> list[A]:
    """One answer for each resource of the request, in its order: the controller's, or what was found out here."""
    decisions = iter(decided)
    return [
        next(decisions)
        if is_forwarded
        else answer_class(
            error_code=0 if refusal is None else refusal.code,
            error_message=None if refusal is None else refusal.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, refusal, is_forwarded in zip(resources, outcome.refusals, outcome.is_forwarded, strict=True)
    ]


def refusals(resources: Sequence[_Resource], error: KafkaError, answer_class: Callable[..., A]) -> list[A]:
    """The same answer for every resource of a request that was refused as a whole."""
    return [
        answer_class(
            error_code=error.code,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in resources
    ]


def _repeated(resources: Sequence[_Resource]) -> set[tuple[int, str]]:
    seen: set[tuple[int, str]] = set()
    repeated: set[tuple[int, str]] = set()
    for resource in resources:
        identity = (resource.resource_type, resource.resource_name)
        (repeated if identity in seen else seen).add(identity)
    return repeated


def alter_loggers(changes: Sequence[_LoggerChange], *, validate_only: bool) -> None:
    """Sets levels at once, for this node and until it stops (KIP-412); nothing is changed when anything is wrong."""
    known = logger_levels()
    levels: dict[str, str | None] = {}
    for change in changes:
        if change.name in levels:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The logger {change.name} is given more than once.")
        levels[change.name] = _wanted_level(change)
        if change.name not in known:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"There is no logger {change.name}.")
    if not validate_only:
        for name, level in levels.items():
            set_logger_level(name, level)


def _wanted_level(change: _LoggerChange) -> str | None:
    if change.config_operation == _DELETE:
        if change.name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The root logger must have a level.")
        return None
    if change.config_operation != _SET:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The level of a logger can be set or deleted, nothing else.")
    if change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The logger {change.name} is given no level.")
    if change.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{change.value} is no level for the logger {change.name}: it must be one of {', '.join(LEVELS)}.",
        )
    return change.value
