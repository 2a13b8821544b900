"""The decisions of ACLs: against a model that looks at every ACL, and the cases that matter one by one."""

from __future__ import annotations

from random import Random

import pytest

from ottla.broker.access.rules import AclIndex
from ottla.metadata.image import AclEntry
from ottla.model.access import WILDCARD_PRINCIPAL, Operation, PatternType, Permission, ResourceType

ALICE, BOB = "User:alice", "User:bob"


def rule(
    name: str = "orders",
    *,
    kind: int = ResourceType.TOPIC,
    pattern: int = PatternType.LITERAL,
    principal: str = ALICE,
    host: str = "*",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
) -> AclEntry:
    return AclEntry(kind, name, pattern, principal, host, operation, permission)


def allows(*rules: AclEntry, principal: str = ALICE, host: str = "10.0.0.1", operation: int, name: str) -> bool:
    index = AclIndex()
    for entry in rules:
        index.add(entry)
    return index.decide((principal, WILDCARD_PRINCIPAL), host, operation, ResourceType.TOPIC, name).is_allowed


@pytest.mark.parametrize(
    ("rules", "operation", "expected"),
    [
        ([rule()], Operation.READ, True),
        ([rule()], Operation.DESCRIBE, True),
        ([rule()], Operation.WRITE, False),
        ([rule(operation=Operation.ALL)], Operation.WRITE, True),
        ([rule(operation=Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS, True),
        ([rule(operation=Operation.ALTER_CONFIGS)], Operation.DESCRIBE, False),
        ([rule(operation=Operation.CREATE)], Operation.DESCRIBE, False),
        ([rule("ord", pattern=PatternType.PREFIXED)], Operation.READ, True),
        ([rule("orders-", pattern=PatternType.PREFIXED)], Operation.READ, False),
        ([rule("*")], Operation.READ, True),
        # A prefix is no pattern: this one is for names that begin with a star.
        ([rule("*", pattern=PatternType.PREFIXED)], Operation.READ, False),
        ([rule(principal="User:*")], Operation.READ, True),
        ([rule(principal="Group:*")], Operation.READ, False),
        ([rule(principal=BOB)], Operation.READ, False),
        ([rule(host="10.0.0.1")], Operation.READ, True),
        ([rule(host="10.0.0.2")], Operation.READ, False),
        ([rule(kind=ResourceType.GROUP)], Operation.READ, False),
        ([rule(), rule("*", permission=Permission.DENY)], Operation.READ, False),
        ([rule(), rule("o", pattern=PatternType.PREFIXED, permission=Permission.DENY)], Operation.READ, False),
        # To deny READ denies no DESCRIBE, and the other way round.
        ([rule(operation=Operation.WRITE), rule(permission=Permission.DENY)], Operation.DESCRIBE, True),
        ([rule(), rule(operation=Operation.DESCRIBE, permission=Permission.DENY)], Operation.READ, True),
        ([rule(), rule(operation=Operation.DESCRIBE, permission=Permission.DENY)], Operation.DESCRIBE, False),
        ([rule(), rule(operation=Operation.ALL, permission=Permission.DENY)], Operation.DESCRIBE, False),
        ([rule(), rule(permission=Permission.DENY, principal="User:*")], Operation.READ, False),
        ([rule(), rule(permission=Permission.DENY, host="10.0.0.2")], Operation.READ, True),
    ],
)
def test_a_decision(rules: list[AclEntry], operation: Operation, expected: bool) -> None:
    assert allows(*rules, operation=operation, name="orders") is expected


def test_spellings_of_an_address_are_the_same() -> None:
    local = rule(host="0:0:0:0:0:0:0:1")
    assert allows(local, host="::1", operation=Operation.READ, name="orders")
    assert not allows(local, host="::2", operation=Operation.READ, name="orders")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([rule("a")], True),
        ([rule("a"), rule("a", permission=Permission.DENY)], False),
        ([rule("a"), rule("b", permission=Permission.DENY)], True),
        ([rule("abc"), rule("ab", pattern=PatternType.PREFIXED, permission=Permission.DENY)], False),
        ([rule("a", pattern=PatternType.PREFIXED), rule("ab", pattern=PatternType.PREFIXED, permission=2)], True),
        ([rule("ab", pattern=PatternType.PREFIXED), rule("a", pattern=PatternType.PREFIXED, permission=2)], False),
        ([rule("*"), rule("a", permission=Permission.DENY)], True),
        ([rule("*"), rule("*", permission=Permission.DENY)], False),
        ([rule("a"), rule("*", permission=Permission.DENY)], False),
        ([rule("a", operation=Operation.DESCRIBE)], False),
        ([rule("a", principal=BOB)], False),
        ([rule("a", host="10.0.0.2")], False),
    ],
)
def test_any_resource_of_a_type(rules: list[AclEntry], expected: bool) -> None:
    index = AclIndex()
    for entry in rules:
        index.add(entry)
    assert index.allows_any((ALICE, WILDCARD_PRINCIPAL), "10.0.0.1", Operation.READ, ResourceType.TOPIC) is expected


def test_the_index_decides_as_a_look_at_every_rule_does() -> None:
    random = Random(5)
    for _ in range(40):
        index, rules = AclIndex(), set[AclEntry]()
        for _ in range(60):
            if rules and random.random() < 0.35:
                removed = random.choice(sorted(rules))
                rules.discard(removed)
                index.remove(removed)
            else:
                new = random_rule(random)
                rules.add(new)
                index.add(new)
            index.invariants()
            assert len(index) == len(rules)
        for _ in range(200):
            name = random_name(random) or "z"
            principal, host = random.choice((ALICE, BOB)), random.choice(("10.0.0.1", "10.0.0.2"))
            operation = random.choice(list(Operation)[3:])
            kind = random.choice((ResourceType.TOPIC, ResourceType.GROUP))
            verdict = index.decide((principal, WILDCARD_PRINCIPAL), host, operation, kind, name)
            assert (verdict.is_allowed, verdict.has_rules) == model(rules, principal, host, operation, kind, name)


def random_name(random: Random) -> str:
    return "".join(random.choice("ab") for _ in range(random.randrange(4)))


def random_rule(random: Random) -> AclEntry:
    return rule(
        random.choice((random_name(random) or "a", "*")),
        kind=random.choice((ResourceType.TOPIC, ResourceType.GROUP)),
        pattern=random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        principal=random.choice((ALICE, BOB, "User:*")),
        host=random.choice(("*", "10.0.0.1", "10.0.0.2")),
        operation=random.choice(list(Operation)[2:]),
        permission=random.choice((Permission.ALLOW, Permission.DENY)),
    )


def model(
    rules: set[AclEntry], principal: str, host: str, operation: Operation, kind: ResourceType, name: str
) -> tuple[bool, bool]:
    implied = {
        Operation.DESCRIBE: {3, 4, 6, 7, 8},
        Operation.DESCRIBE_CONFIGS: {10, 11},
    }.get(operation, {operation})
    affecting = [
        entry
        for entry in rules
        if entry.resource_type == kind
        and (
            name.startswith(entry.resource_name)
            if entry.pattern_type == PatternType.PREFIXED
            else entry.resource_name in ("*", name)
        )
    ]
    applicable = [
        entry for entry in affecting if entry.principal in ("User:*", principal) and entry.host in ("*", host)
    ]
    denied = any(entry.permission_type == 2 and entry.operation in (2, operation) for entry in applicable)
    allowed = any(entry.permission_type == 3 and entry.operation in {2, *implied} for entry in applicable)
    return allowed and not denied, bool(affecting)
