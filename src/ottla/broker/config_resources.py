"""Common code of the configuration APIs: authorization per resource, and changes of logger levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ottla.broker.authorization import CLUSTER_NAME, Operation
from ottla.broker.authorization import ResourceType as AclResourceType
from ottla.broker.loggers import LEVELS, ROOT, logger_levels, set_logger_level
from ottla.metadata.controller.configs import CORDONED_DIRECTORIES_KEY, check_broker_values
from ottla.metadata.controller.decision import repeated
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.config.columns import INT_MAX
from ottla.model.config.values import is_number
from ottla.model.deferred import Deferred, gather
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = [
    "alter_loggers",
    "altered",
    "check_authorized",
    "check_change",
    "check_own_id",
    "refusals",
]

# The new configuration of a resource for its present one.
_Change = Callable[[ConfigResource, dict[str, str]], dict[str, str]]

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
    """Topics and groups are authorized by their own resources, everything else by the cluster."""
    if resource.resource_type == ResourceType.TOPIC:
        kind, name = AclResourceType.TOPIC, resource.resource_name
    elif resource.resource_type == ResourceType.GROUP:
        kind, name = AclResourceType.GROUP, resource.resource_name
    else:
        kind, name = AclResourceType.CLUSTER, CLUSTER_NAME
    if not context.allows(operation, kind, name):
        raise KafkaError(_REFUSALS[kind])


def check_own_id(name: str, node_id: int) -> None:
    """Checks that the request names this broker: clients send it to the broker whose configuration they want."""
    if not is_number(name, at_most=INT_MAX):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The name of a broker resource must be its id, not {name[:40]!r}.")
    if int(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The request is for broker {name}, but broker {node_id} received it. Send it to broker {name}.",
        )


def check_change(
    resource: _Resource, context: RequestContext, broker: Broker, change: _Change
) -> bool | Deferred[None]:
    """What this node checks before the controller decides about a change. Answers as `altered` expects of `settle`.

    A request that a broker forwards was checked by that broker.
    """
    if resource.resource_type != ResourceType.BROKER:
        if not resource.resource_name:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Missing resource name: only brokers have a default configuration."
            )
        return False
    if context.connection.is_forwarded:
        return False
    if context.listener.is_controller:
        _check_cordoning_at_controller(resource, broker, change)
        return False
    if resource.resource_name:
        check_own_id(resource.resource_name, broker.node_id)
    return _check_on_this_broker(resource, broker, change)


def _check_on_this_broker(resource: _Resource, broker: Broker, change: _Change) -> Deferred[None]:
    """Validates a change for this broker, or for all brokers, against the properties file of this node.

    The controller has only its own file. It would accept a value that is then described but never applied here. Raises
    KafkaError, or fails with one where files have to be read.
    """
    target = ConfigResource(resource.resource_type, resource.resource_name)
    present = broker.metadata.image.configs.by_resource.get(target) or {}
    changed = check_broker_values(target, present, change(target, dict(present)), broker.config)
    if changed is None:
        return Deferred.resolved(None)
    return gather([check(changed) for check in broker.config_checks]).then(lambda _: None)


def _check_cordoning_at_controller(resource: _Resource, broker: Broker, change: _Change) -> None:
    """Checks a request that a client sent to a controller: it may only remove directories from `cordoned.log.dirs`.

    Only a broker knows its directories.
    """
    target = ConfigResource(resource.resource_type, resource.resource_name)
    present = broker.metadata.image.configs.by_resource.get(target) or {}
    before = _entries(present.get(CORDONED_DIRECTORIES_KEY))
    after = _entries(change(target, dict(present)).get(CORDONED_DIRECTORIES_KEY))
    if not after <= before:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"A controller only removes directories from {CORDONED_DIRECTORIES_KEY}. Send the request to the broker.",
        )


def _entries(text: str | None) -> set[str]:
    return {entry for part in (text or "").split(",") if (entry := part.strip())}


R = TypeVar("R", bound=_Resource)
A = TypeVar("A")


class _Triage(NamedTuple, Generic[R]):
    """The resources of a request in its order: those that this node has handled, and those for the controller."""

    # The error of each resource; None if the resource was handled or is forwarded.
    refusals: list[KafkaError | None]
    # For each resource: True if it is forwarded to the controller.
    is_forwarded: list[bool]
    forwarded: list[R]


def altered(
    resources: Sequence[R],
    settle: Callable[[R], bool | Deferred[None]],
    ask_controller: Callable[[list[R]], Deferred[Sequence[A]]],
    answer_class: Callable[..., A],
) -> Deferred[list[A]]:
    """The answer for each resource of a request that changes configurations, in its order.

    `settle` returns True if it has handled a resource, False to forward it, or raises the reason for refusing it. A
    Deferred forwards the resource if it succeeds, and refuses the resource if it fails.
    """

    def forward(outcome: _Triage[R]) -> Deferred[list[A]]:
        if not outcome.forwarded:
            return Deferred.resolved(_answers(resources, outcome, [], answer_class))
        decided = ask_controller(outcome.forwarded)
        return decided.then(lambda answers: _answers(resources, outcome, answers, answer_class))

    twice = repeated((resource.resource_type, resource.resource_name) for resource in resources)
    settled = [_settled(resource, settle, twice) for resource in resources]
    return gather(settled).then(lambda outcomes: _triaged(resources, outcomes)).and_then(forward)


def _settled(
    resource: R, settle: Callable[[R], bool | Deferred[None]], twice: set[tuple[int, str]]
) -> Deferred[bool | KafkaError]:
    """True if the resource was handled, False if it is to be forwarded, or why it is refused."""
    try:
        if (resource.resource_type, resource.resource_name) in twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The request names this resource more than once.")
        outcome = settle(resource)
    except KafkaError as error:
        error.forget_traceback()
        return Deferred.resolved(error)
    if not isinstance(outcome, Deferred):
        return Deferred.resolved(outcome)
    checked: Deferred[bool | KafkaError] = outcome.then(lambda _: False)
    return checked.recover(KafkaError, lambda error: error)


def _triaged(resources: Sequence[R], outcomes: Sequence[bool | KafkaError]) -> _Triage[R]:
    return _Triage(
        refusals=[outcome if isinstance(outcome, KafkaError) else None for outcome in outcomes],
        is_forwarded=[outcome is False for outcome in outcomes],
        forwarded=[resource for resource, outcome in zip(resources, outcomes, strict=True) if outcome is False],
    )


def _answers(
    resources: Sequence[R], outcome: _Triage[R], decided: Sequence[A], answer_class: Callable[..., A]
) -> list[A]:
    """The answers in the order of the request, from the controller or from this node."""
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


def alter_loggers(changes: Sequence[_LoggerChange], *, validate_only: bool) -> None:
    """Sets logger levels of this node until it stops (KIP-412). If one change is invalid, none is applied."""
    existing = logger_levels()
    levels: dict[str, str | None] = {}
    for change in changes:
        if change.name in levels:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The request names the logger {change.name} more than once.")
        levels[change.name] = _wanted_level(change)
        if change.name not in existing:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"The logger {change.name} does not exist.")
    if not validate_only:
        for name, level in levels.items():
            set_logger_level(name, level)


def _wanted_level(change: _LoggerChange) -> str | None:
    if change.config_operation == _DELETE:
        if change.name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The level of the root logger cannot be deleted.")
        return None
    if change.config_operation != _SET:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The level of a logger can only be set or deleted.")
    if change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The request has no level for the logger {change.name}.")
    if change.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid level {change.value} for the logger {change.name}: it must be one of {', '.join(LEVELS)}.",
        )
    return change.value
