"""The words of `ottla acls`: the rules of a role, and combinations that are refused."""

from __future__ import annotations

import pytest

from ottla.cli.logic.acl_words import Access, Resource, Subjects, operation_of, rules, selections, shown
from ottla.client.admin.acls import AclSelection
from ottla.model.access import Operation, PatternType, Permission, ResourceType

TOPIC = Resource(ResourceType.TOPIC, "orders")
GROUP = Resource(ResourceType.GROUP, "workers")
ALICE = Subjects(allowed=("User:alice",))
LITERAL = PatternType.LITERAL


def operations(resources: list[Resource], access: Access) -> dict[str, list[str]]:
    by_type: dict[str, list[str]] = {}
    for rule in rules(resources, LITERAL, access, ALICE):
        by_type.setdefault(rule.resource_type.name, []).append(rule.operation.name)
    return by_type


def test_roles() -> None:
    assert operations([TOPIC], Access()) == {"TOPIC": ["ALL"]}
    assert operations([TOPIC], Access(producer=True)) == {"TOPIC": ["WRITE", "DESCRIBE", "CREATE"]}
    assert operations([TOPIC, GROUP], Access(consumer=True)) == {"TOPIC": ["READ", "DESCRIBE"], "GROUP": ["READ"]}
    transactional = [TOPIC, Resource(ResourceType.TRANSACTIONAL_ID, "tx")]
    assert operations(transactional, Access(producer=True, idempotent=True)) == {
        "TOPIC": ["WRITE", "DESCRIBE", "CREATE"],
        "TRANSACTIONAL_ID": ["WRITE", "DESCRIBE"],
        "CLUSTER": ["IDEMPOTENT_WRITE"],
    }


def test_every_principal_and_host() -> None:
    subjects = Subjects(allowed=("User:a", "User:b"), denied=("User:c",), denied_hosts=("10.0.0.1", "10.0.0.2"))
    entries = rules([TOPIC], PatternType.PREFIXED, Access((Operation.READ,)), subjects)
    assert [(rule.permission, rule.principal, rule.host) for rule in entries] == [
        (Permission.ALLOW, "User:a", "*"),
        (Permission.ALLOW, "User:b", "*"),
        (Permission.DENY, "User:c", "10.0.0.1"),
        (Permission.DENY, "User:c", "10.0.0.2"),
    ]
    assert {rule.pattern_type for rule in entries} == {PatternType.PREFIXED}


def test_a_removal_is_of_a_resource_or_of_the_same_rules() -> None:
    assert selections([TOPIC], LITERAL, Access(), Subjects()) == [AclSelection(ResourceType.TOPIC, "orders", LITERAL)]
    (exact,) = selections([TOPIC], LITERAL, Access((Operation.READ,)), ALICE)
    assert exact == AclSelection(
        ResourceType.TOPIC, "orders", LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
    )


@pytest.mark.parametrize(
    ("resources", "pattern", "access", "subjects", "reason"),
    [
        ([TOPIC], LITERAL, Access(), Subjects(), "needs a principal"),
        ([], LITERAL, Access(), ALICE, "Name a resource"),
        ([GROUP], LITERAL, Access(producer=True), ALICE, "need a --topic"),
        ([TOPIC], LITERAL, Access(consumer=True), ALICE, "needs a --group"),
        ([TOPIC], LITERAL, Access((Operation.READ,), producer=True), ALICE, "exclude each other"),
        ([TOPIC], LITERAL, Access(idempotent=True), ALICE, "is for --producer"),
        ([TOPIC], PatternType.MATCH, Access(), ALICE, "literal name or a prefix"),
    ],
)
def test_what_makes_no_sense_is_refused(
    resources: list[Resource], pattern: PatternType, access: Access, subjects: Subjects, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        rules(resources, pattern, access, subjects)


@pytest.mark.parametrize("operation", [operation for operation in Operation if operation >= Operation.ALL])
def test_spellings(operation: Operation) -> None:
    assert operation_of(operation.name) == operation_of(shown(operation)) == operation
    assert operation_of(shown(operation).lower()) == operation


def test_an_unknown_operation_is_told_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"'Any' is no operation; use one of All, Read"):
        operation_of("Any")
