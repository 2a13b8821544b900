"""`super.users` names single principals: `User:*` is no wildcard there, as in Apache Kafka."""

from __future__ import annotations

import pytest

from ottla.broker.access.standard import StandardAuthorizer
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import Principal
from tests.unit.broker.access.test_standard_authorizer import config, context


@pytest.mark.parametrize("groups", [(), ("staff",)])
def test_a_star_in_super_users_makes_nobody_a_super_user(groups: tuple[str, ...]) -> None:
    authorizer = StandardAuthorizer(config(super_users="User:*"))
    request_context = context("alice", authorizer)
    request_context.connection.identify(Principal("User", "alice", groups))
    assert not authorizer.authorize(request_context, Operation.READ, ResourceType.TOPIC, "t")
    assert not authorizer.explain(request_context, Operation.READ, ResourceType.TOPIC, "t")[0]
    assert not authorizer.authorize_by_resource_type(request_context, Operation.READ, ResourceType.TOPIC)
