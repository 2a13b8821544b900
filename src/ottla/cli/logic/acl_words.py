"""The words of kafka-acls: resources, operations, and the sets of rules that a producer or a consumer needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.client.admin.acls import Acl, AclSelection
from ottla.model.access import CLUSTER_NAME, WILDCARD, Operation, PatternType, Permission, ResourceType

__all__ = ["Access", "Resource", "Subjects", "operation_of", "pattern_of", "rules", "selections", "shown"]


class Resource(NamedTuple):
    type: ResourceType
    name: str


class Access(NamedTuple):
    """What is allowed or denied: operations, or everything that a role needs."""

    operations: tuple[Operation, ...] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    def of(self, resource: Resource) -> tuple[Operation, ...]:
        if not self.producer and not self.consumer:
            return self.operations or (Operation.ALL,)
        wanted: dict[Operation, None] = {}
        if self.producer:
            wanted |= dict.fromkeys(_PRODUCER.get(resource.type, ()))
        if self.consumer:
            wanted |= dict.fromkeys(_CONSUMER.get(resource.type, ()))
        return tuple(wanted)


_PRODUCER = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (Operation.IDEMPOTENT_WRITE,),
}
_CONSUMER = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}


class Subjects(NamedTuple):
    """The principals and hosts of the rules."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    denied_hosts: tuple[str, ...] = ()

    def combinations(self) -> Iterator[tuple[Permission, str, str]]:
        for permission, principals, hosts in (
            (Permission.ALLOW, self.allowed, self.allowed_hosts),
            (Permission.DENY, self.denied, self.denied_hosts),
        ):
            for principal in principals:
                for host in hosts or (WILDCARD,):
                    yield permission, principal, host


def rules(resources: Sequence[Resource], pattern: PatternType, access: Access, subjects: Subjects) -> list[Acl]:
    """The rules of `--add`; raises ValueError for what makes no sense together."""
    if not subjects.allowed and not subjects.denied:
        raise ValueError("A rule needs a principal: add --allow-principal User:name or --deny-principal User:name.")
    if access.idempotent and not access.producer:
        raise ValueError("--idempotent is for --producer.")
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ValueError("A rule is for a literal name or a prefix: --resource-pattern-type literal or prefixed.")
    _check_role(resources, access)
    wanted = [*resources, *([Resource(ResourceType.CLUSTER, CLUSTER_NAME)] if access.idempotent else [])]
    return [
        Acl(
            resource_type=resource.type,
            resource_name=resource.name,
            principal=principal,
            operation=operation,
            permission=permission,
            host=host,
            # The cluster has one name.
            pattern_type=PatternType.LITERAL if resource.type == ResourceType.CLUSTER else pattern,
        )
        for resource in wanted
        for permission, principal, host in subjects.combinations()
        for operation in access.of(resource)
    ]


def selections(
    resources: Sequence[Resource], pattern: PatternType, access: Access, subjects: Subjects
) -> list[AclSelection]:
    """The filters of `--remove`: all rules of the resources, or exactly those that `--add` would have made."""
    if subjects.allowed or subjects.denied:
        return [
            AclSelection(
                rule.resource_type,
                rule.resource_name,
                rule.pattern_type,
                rule.principal,
                rule.host,
                rule.operation,
                rule.permission,
            )
            for rule in rules(resources, pattern, access, subjects)
        ]
    return [AclSelection(resource.type, resource.name, pattern) for resource in resources]


def _check_role(resources: Sequence[Resource], access: Access) -> None:
    kinds = {resource.type for resource in resources}
    if (access.producer or access.consumer) and ResourceType.TOPIC not in kinds:
        raise ValueError("--producer and --consumer need a --topic.")
    if access.consumer and ResourceType.GROUP not in kinds:
        raise ValueError("--consumer needs a --group, besides a --topic.")
    if (access.producer or access.consumer) and access.operations:
        raise ValueError("--operation and --producer or --consumer exclude each other.")
    if not resources:
        raise ValueError("Name a resource: --topic, --group, --cluster, --transactional-id or --user-principal.")


def operation_of(text: str) -> Operation:
    """An operation in any spelling of Kafka's tools: `Read`, `READ`, `IdempotentWrite`, `IDEMPOTENT_WRITE`."""
    wanted = text.replace("_", "").upper()
    for operation in Operation:
        if operation >= Operation.ALL and operation.name.replace("_", "") == wanted:
            return operation
    names = ", ".join(shown(operation) for operation in Operation if operation >= Operation.ALL)
    raise ValueError(f"{text!r} is no operation; use one of {names}.")


def pattern_of(text: str) -> PatternType:
    return PatternType[text.upper()]


def shown(value: Operation | ResourceType | PatternType | Permission) -> str:
    """`IDEMPOTENT_WRITE` as `IdempotentWrite`, the spelling of Kafka's tools."""
    return "".join(word.capitalize() for word in value.name.split("_"))
