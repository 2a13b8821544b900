"""Random ACLs and questions: the decisions are those of Kafka's own StandardAuthorizer."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.access.standard import StandardAuthorizer
from ottla.broker.context import ConnectionContext, ListenerInfo, Principal, RequestContext
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.model.config import BrokerConfig
from ottla.model.ids import Uuid
from ottla.wire.messages.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from tests.data.make_authorizer_answers import ANSWERS
from tests.support.authorizer_questions import Add, Ask, Remove, World, worlds
from tests.support.authorizer_questions import Any as AnyResource

LISTENER = ListenerInfo(
    name="PLAINTEXT", security_protocol="PLAINTEXT", host="", port=0, advertised_host="", advertised_port=0
)


def answers(world: World, *, reloads: bool) -> str:
    """The decisions of our authorizer, which follows the metadata, or is made again before every question."""
    config = BrokerConfig.embedded(
        {
            "super.users": world.super_users,
            "allow.everyone.if.no.acl.found": str(world.allows_without_acls).lower(),
        }
    )
    authorizer, image, decisions = StandardAuthorizer(config), MetadataImage(), ""
    for step in world.steps:
        match step:
            case Add() | Remove():
                delta = MetadataDelta(image)
                delta.replay(_record(step))
                image = delta.apply(offset=image.offset + 1, epoch=1, timestamp_ms=0)
                if not reloads:
                    authorizer.publish(delta, image)
            case Ask(principal, host, operation, kind, name):
                if reloads:
                    authorizer.start(image)
                decisions += "01"[authorizer.authorize(_context(principal, host), operation, kind, name)]
            case AnyResource(principal, host, operation, kind):
                if reloads:
                    authorizer.start(image)
                decisions += "01"[authorizer.authorize_by_resource_type(_context(principal, host), operation, kind)]
    return decisions


def _record(step: Add | Remove) -> Any:
    identity = Uuid((step.identity + 1).to_bytes(16, "big"))
    if isinstance(step, Remove):
        return RemoveAccessControlEntryRecord(id=identity)
    acl = step.acl
    return AccessControlEntryRecord(
        id=identity,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _context(principal: str, host: str) -> RequestContext:
    kind, _, name = principal.partition(":")
    connection = ConnectionContext(listener=LISTENER, client_host=host, client_port=1, principal=Principal(kind, name))
    return RequestContext(0, 0, 0, None, connection, 0)


@pytest.mark.parametrize("reloads", [False, True], ids=["follows", "reloads"])
def test_the_same_decisions(reloads: bool) -> None:
    kafkas = ANSWERS.read_text().split("\n")[:-1]
    ours = [answers(world, reloads=reloads) for world in worlds()]
    assert len(ours) == len(kafkas)
    different = [number for number, (own, kafka) in enumerate(zip(ours, kafkas, strict=True)) if own != kafka]
    assert not different
