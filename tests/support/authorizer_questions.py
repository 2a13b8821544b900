"""Random ACLs, which change step by step, and questions about them, all from a single seed.

Kafka's StandardAuthorizer has answered the questions (`tests/data/make_authorizer_answers.py` keeps its answers);
`tests/unit/broker/access/test_as_kafkas_authorizer.py` asks our authorizer the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from ottla.model.access import SUPPORTED_OPERATIONS, Operation, PatternType, Permission, ResourceType

__all__ = ["WORLDS", "Acl", "Add", "Any", "Ask", "Remove", "World", "as_lines", "worlds"]

WORLDS = 400
STEPS = 60

# Names that are prefixes of each other, so that ACLs of every kind overlap.
_NAMES = ("a", "ab", "abc", "abd", "b", "ba", "*", "aé", "hardcode", "orders", "orders-2", "ord")
_PRINCIPALS = ("User:alice", "User:bob", "User:*", "User:root", "Group:staff", "User:ANONYMOUS", "Group:*")
_CLIENTS = ("User:alice", "User:bob", "User:root", "Group:staff", "User:ANONYMOUS")
_HOSTS = ("*", "127.0.0.1", "10.0.0.1", "fe80:0:0:0:0:0:0:1", "localhost")
_CLIENT_HOSTS = ("127.0.0.1", "10.0.0.1", "10.0.0.2", "fe80:0:0:0:0:0:0:1")


class Acl(NamedTuple):
    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission


class Add(NamedTuple):
    identity: int
    acl: Acl


class Remove(NamedTuple):
    identity: int


class Ask(NamedTuple):
    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


class Any(NamedTuple):
    """Whether the operation is allowed for some resource of the type."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType


Step = Add | Remove | Ask | Any


class World(NamedTuple):
    super_users: str
    allows_without_acls: bool
    steps: list[Step]


def worlds() -> Iterator[World]:
    for seed in range(WORLDS):
        drawn = random.Random(f"authorizer {seed}")
        yield World(drawn.choice(("", "User:root", "User:root;Group:staff")), drawn.random() < 0.3, _steps(drawn))


def _steps(drawn: random.Random) -> list[Step]:
    steps: list[Step] = []
    present: dict[int, Acl] = {}
    kinds = drawn.sample(list(SUPPORTED_OPERATIONS), drawn.choice((1, 1, 2)))
    for number in range(STEPS):
        kind = drawn.choice(kinds)
        chance = drawn.random()
        if chance < 0.3:
            acl = _acl(drawn, kind)
            if acl not in present.values():
                present[number] = acl
                steps.append(Add(number, acl))
        elif chance < 0.4 and present:
            identity = drawn.choice(list(present))
            del present[identity]
            steps.append(Remove(identity))
        elif chance < 0.85:
            client, host = drawn.choice(_CLIENTS), drawn.choice(_CLIENT_HOSTS)
            steps.append(Ask(client, host, drawn.choice(SUPPORTED_OPERATIONS[kind]), kind, drawn.choice(_NAMES)))
        else:
            client, host = drawn.choice(_CLIENTS), drawn.choice(_CLIENT_HOSTS)
            steps.append(Any(client, host, drawn.choice(SUPPORTED_OPERATIONS[kind]), kind))
    return steps


def _acl(drawn: random.Random, kind: ResourceType) -> Acl:
    return Acl(
        kind,
        drawn.choice(_NAMES),
        drawn.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        drawn.choice(_PRINCIPALS),
        drawn.choice(("*", *_HOSTS)),
        drawn.choice((*SUPPORTED_OPERATIONS[kind], Operation.ALL)),
        drawn.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def as_lines(world: World) -> Iterator[str]:
    """The input of `programs/AuthorizerAnswers.java`."""
    yield f"world\t{world.super_users}\t{str(world.allows_without_acls).lower()}"
    for step in world.steps:
        match step:
            case Add(identity, acl):
                words = (str(int(word)) if isinstance(word, int) else word for word in acl)
                yield "\t".join(("add", str(identity), *words))
            case Remove(identity):
                yield f"remove\t{identity}"
            case Ask(principal, host, operation, kind, name):
                yield f"ask\t{principal}\t{host}\t{operation:d}\t{kind:d}\t{name}"
            case Any(principal, host, operation, kind):
                yield f"any\t{principal}\t{host}\t{operation:d}\t{kind:d}"
    yield "end"
