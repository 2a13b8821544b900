"""A scenario that creates, describes and deletes ACLs one by one: the answers, and the records in the metadata log.

The same requests go to Apache Kafka (`tests/data/make_acl_answers.py` keeps its answers) and to Ottla. Messages become
"said", ids of records become "id", and lists without an order are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.message import Message, Structure
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from ottla.wire.metadata_codec import decode_record
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["SETTINGS", "play"]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}

VERSION = 3
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7
ALL, READ, WRITE, DESCRIBE, CREATE_TOKENS = 2, 3, 4, 8, 13
DENY, ALLOW = 2, 3


def play(bootstrap: str, controller: str, metadata_log: Path) -> dict[str, Any]:
    """Sends all requests; returns the answers by label, and then the records of ACLs in the metadata log."""
    answers: dict[str, Any] = {}
    for label, request in _requests():
        answers[label] = _answer(bootstrap, request)
    for label, request in (
        ("create", _create(_rule("at-the-controller"))),
        ("describe", _describe(name="at-the-controller")),
        ("delete", _delete(_filter(name="at-the-controller"))),
    ):
        answers[f"controller: {label}"] = _answer(controller, request)
    return {**answers, **dict(_records(metadata_log))}


def _requests() -> Iterator[tuple[str, Message]]:
    yield "describe nothing", _describe()
    yield from _creations()
    yield from _descriptions()
    yield from _deletions()
    yield "describe what is left", _describe()
    yield "create nothing", _create()
    yield "delete by no filter", _delete()


def _creations() -> Iterator[tuple[str, Message]]:
    yield "create one", _create(_rule("orders"))
    yield "create it again", _create(_rule("orders"))
    yield "create one twice in a request", _create(_rule("twice"), _rule("twice"))
    yield (
        "create many",
        _create(
            _rule("orders", permission=DENY),
            _rule("ord", pattern=PREFIXED),
            _rule("*", operation=DESCRIBE),
            _rule("orders", principal="User:*", operation=ALL),
            _rule("orders", host="10.0.0.1", operation=WRITE),
            _rule("workers", kind=GROUP),
            _rule("*", kind=GROUP, pattern=PREFIXED),
            _rule("kafka-cluster", kind=CLUSTER, operation=ALL),
            _rule("tx", kind=TRANSACTIONAL_ID, operation=WRITE),
            _rule("token", kind=TOKEN, operation=DESCRIBE),
            _rule("User:alice", kind=USER, operation=CREATE_TOKENS),
        ),
    )
    for label, rule in _refused_rules():
        # Apache Kafka fails the whole request if a rule has a value that only filters may have.
        beside = () if label.startswith("only for filters") else (_rule(f"beside-{label}"),)
        yield f"refused: {label}", _create(rule, *beside)


def _descriptions() -> Iterator[tuple[str, Message]]:
    for pattern in (ANY, MATCH, LITERAL, PREFIXED):
        for name in (None, "orders", "ord", "*", "orders-2", "nothing"):
            yield f"describe topics {name} by pattern {pattern}", _describe(kind=TOPIC, name=name, pattern=pattern)
    yield "describe all", _describe()
    yield "describe by principal", _describe(principal="User:*")
    yield "describe by host", _describe(host="10.0.0.1")
    yield "describe by operation", _describe(operation=READ)
    yield "describe by permission", _describe(permission=DENY)
    yield (
        "describe by everything",
        _describe(
            kind=TOPIC,
            name="orders",
            pattern=LITERAL,
            principal="User:alice",
            host="*",
            operation=READ,
            permission=ALLOW,
        ),
    )
    yield "describe all users", _describe(kind=USER)
    yield "describe an unknown kind", _describe(kind=99)
    yield "describe an unknown operation", _describe(operation=99)


def _deletions() -> Iterator[tuple[str, Message]]:
    yield "delete nothing", _delete(_filter(name="nothing"))
    yield "delete by an unknown kind", _delete(_filter(kind=99))
    yield (
        "delete one exactly",
        _delete(
            _filter(
                kind=TOPIC,
                name="orders",
                pattern=LITERAL,
                principal="User:alice",
                host="*",
                operation=READ,
                permission=ALLOW,
            )
        ),
    )
    yield "delete with two filters", _delete(_filter(kind=GROUP), _filter(name="workers"))
    yield "delete by match", _delete(_filter(kind=TOPIC, name="orders", pattern=MATCH))


def _refused_rules() -> Iterator[tuple[str, AclCreation]]:
    yield "only for filters: any resource", _rule("x", kind=ANY)
    yield "unknown resource", _rule("x", kind=99)
    yield "only for filters: any pattern", _rule("x", pattern=ANY)
    yield "only for filters: match", _rule("x", pattern=MATCH)
    yield "unknown pattern", _rule("x", pattern=99)
    yield "only for filters: any operation", _rule("x", operation=1)
    yield "unknown operation", _rule("x", operation=99)
    yield "only for filters: any permission", _rule("x", permission=1)
    yield "unknown permission", _rule("x", permission=99)
    yield "no name", _rule("")
    yield "another cluster", _rule("mine", kind=CLUSTER)
    yield "prefixed cluster", _rule("kafka", kind=CLUSTER, pattern=PREFIXED)
    yield "principal without a type", _rule("x", principal="alice")
    yield "principal without a name", _rule("x", principal="User:")
    yield "no principal", _rule("x", principal="")
    yield "no host", _rule("x", host="")
    yield "operation that topics lack", _rule("x", operation=CREATE_TOKENS)
    yield "operation that groups lack", _rule("x", kind=GROUP, operation=WRITE)
    yield "host that is a name", _rule("x", host="example.org")
    yield "resource zero", _rule("x", kind=0)


def _rule(
    name: str,
    *,
    kind: int = TOPIC,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def _filter(
    *,
    kind: int = ANY,
    name: str | None = None,
    pattern: int = ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )


def _describe(**wanted: Any) -> DescribeAclsRequest:
    same = _filter(**wanted)
    return DescribeAclsRequest(**{slot: getattr(same, slot) for slot in same.__slots__ if slot != "unknown_tagged"})


def _create(*rules: AclCreation) -> CreateAclsRequest:
    return CreateAclsRequest(creations=list(rules))


def _delete(*filters: DeleteAclsFilter) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=list(filters))


def _answer(address: str, request: Message) -> Any:
    with RawClient(address) as client:
        try:
            return _plain(client.call(request, VERSION), "")
        except ConnectionClosed:
            return "closed"


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, Structure):
        return {slot: _plain(getattr(value, slot), slot) for slot in value.__slots__}
    if name == "id":
        return "id"
    if not isinstance(value, list):
        return "said" if name == "error_message" and value else value
    plain = [_plain(element, name) for element in value]
    # Results are in the order of the request; matching rules have no order.
    return plain if name in ("results", "filter_results") else sorted(plain, key=repr)


def _records(metadata_log: Path) -> Iterator[tuple[str, Any]]:
    kinds = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)
    number = 0
    for batch in iterate_batches(metadata_log.read_bytes()):
        if batch.header.is_control:
            continue
        for log_record in iterate_records(batch):
            record = decode_record(memoryview(log_record.value or b""))
            if isinstance(record, kinds):
                yield f"record {number}", [type(record).__name__, _plain(record, "")]
                number += 1
