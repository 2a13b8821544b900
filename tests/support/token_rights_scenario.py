"""The APIs of delegation tokens under many sets of ACLs: rights about users (KIP-373) and about tokens (KIP-48).

Alice owns two tokens, and Bob may renew one of them. Bob sends requests under every set, and Alice under sets that
deny her own tokens to her. The same requests go to Apache Kafka (`tests/data/make_token_rights_answers.py` keeps its
answers) and to Ottla.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.model.access import SUPPORTED_OPERATIONS, Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_delegation_token import CreatableRenewers
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from tests.support.raw_client import RawClient
from tests.support.sasl_node import SaslNode
from tests.support.sasl_scenario import ALICE, BOB, SETTINGS, Tokens, until

__all__ = ["SETTINGS", "play"]

TOKEN, USER = ResourceType.DELEGATION_TOKEN, ResourceType.USER
_EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


class _Rule(NamedTuple):
    """A name in angle brackets stands for the token of that name."""

    kind: ResourceType
    operation: Operation
    name: str
    permission: Permission = Permission.ALLOW
    pattern: PatternType = PatternType.LITERAL
    host: str = "*"
    principal: str = "User:bob"


def _sets() -> Iterator[tuple[str, list[_Rule]]]:
    yield "nothing", []
    for kind, name in ((TOKEN, "<plain>"), (USER, "User:alice")):
        everything = _Rule(kind, Operation.ALL, name)
        yield f"ALL on {kind.name}", [everything]
        for operation in SUPPORTED_OPERATIONS[kind]:
            rule = _Rule(kind, operation, name)
            yield f"{operation.name} on {kind.name}", [rule]
            yield f"ALL but {operation.name} on {kind.name}", [everything, rule._replace(permission=Permission.DENY)]
            yield f"{operation.name} on every {kind.name}", [rule._replace(name="*")]
            yield f"{operation.name} on {kind.name} from elsewhere", [rule._replace(host="10.9.8.7")]
            yield f"{operation.name} on {kind.name} from here", [rule._replace(host="127.0.0.1")]
            yield f"{operation.name} on {kind.name} for all", [rule._replace(principal="User:*")]
            yield f"{operation.name} on {kind.name} for another", [rule._replace(principal="User:carol")]
            yield f"deny {operation.name} on {kind.name}", [rule._replace(permission=Permission.DENY)]
            denied = rule._replace(permission=Permission.DENY, principal="User:alice")
            yield f"deny {operation.name} on {kind.name} to its owner", [denied]
    yield "ALL on USER by prefix", [_Rule(USER, Operation.ALL, "User:al", pattern=PatternType.PREFIXED)]
    yield "ALL on USER by a prefix of others", [_Rule(USER, Operation.ALL, "User:b", pattern=PatternType.PREFIXED)]
    denied = _Rule(USER, Operation.ALL, "User:", Permission.DENY, PatternType.PREFIXED)
    yield "ALL on every USER but a prefix", [_Rule(USER, Operation.ALL, "*"), denied]
    yield "DESCRIBE on CLUSTER", [_Rule(ResourceType.CLUSTER, Operation.DESCRIBE, "kafka-cluster")]
    yield "ALL on CLUSTER", [_Rule(ResourceType.CLUSTER, Operation.ALL, "kafka-cluster")]


def play(node: SaslNode) -> dict[str, Any]:
    """The answers to all requests, by set of ACLs."""
    with RawClient(node.node.bootstrap) as administrator:
        alice, bob = Tokens(node, ALICE), Tokens(node, BOB)
        renewer = CreatableRenewers(principal_type="User", principal_name="bob")
        plain, _ = alice.create()
        renewable, _ = alice.create(renewers=[renewer])
        ids = {"<plain>": plain.token_id, "<renewable>": renewable.token_id}
        hmacs = (bytes(plain.hmac), bytes(renewable.hmac))
        until(lambda: len(alice.describe("*")["tokens"]) == len(hmacs))
        answers = {}
        for label, rules in _sets():
            _give(administrator, rules, ids)
            answers[label] = dict(_answers(alice, bob, hmacs))
        for user in (alice, bob):
            user.client.close()
    return answers


def _answers(alice: Tokens, bob: Tokens, hmacs: tuple[bytes, bytes]) -> Iterator[tuple[str, Any]]:
    for_alice = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    yield "describe all", bob.describe("*")
    yield "describe hers", bob.describe("alice")
    yield "describe his", bob.describe("bob")
    yield "renew", [bob.renew(hmac) for hmac in hmacs]
    yield "expire later", [bob.expire(hmac, 600_000) for hmac in hmacs]
    yield "the owner describes", alice.describe("*")
    yield "the owner renews", alice.renew(hmacs[0])
    for label, client, owner in (("create", bob, {}), ("create for her", bob, for_alice), ("her own", alice, {})):
        token, answer = client.create(**owner)
        yield label, answer
        if token.error_code == 0:
            hmac = bytes(token.hmac)
            maker = alice if owner or client is alice else bob
            # A broker that follows the metadata may not know a token that was created a moment ago.
            until(lambda maker=maker, hmac=hmac: maker.expire(hmac)["error_code"] == 0)
            until(lambda maker=maker, hmac=hmac: maker.expire(hmac)["error_code"] != 0)


def _give(administrator: RawClient, rules: list[_Rule], ids: dict[str, str]) -> None:
    """Replaces all ACLs."""

    def wait_for(count: int) -> None:
        request = DescribeAclsRequest(**_EVERY_ACL)
        until(lambda: sum(len(resource.acls) for resource in administrator.call(request, 3).resources) == count)

    administrator.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**_EVERY_ACL)]), 3)
    wait_for(0)
    creations = [
        AclCreation(
            resource_type=rule.kind,
            resource_name=ids.get(rule.name, rule.name),
            resource_pattern_type=rule.pattern,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    ]
    if creations:
        created = administrator.call(CreateAclsRequest(creations=creations), 3)
        assert not any(result.error_code for result in created.results)
    wait_for(len(creations))
