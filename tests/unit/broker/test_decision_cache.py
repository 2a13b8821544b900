"""Decisions of an authorizer are cached for each connection until the authorizer's rules change."""

from __future__ import annotations

import pytest

from ottla.broker import authorization
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import ConnectionContext, ListenerInfo, Principal, RequestContext
from tests.support.shortcuts import RuleAuthorizer

LISTENER = ListenerInfo(
    name="PLAINTEXT", security_protocol="PLAINTEXT", host="h", port=1, advertised_host="h", advertised_port=1
)
TOPIC = ResourceType.TOPIC


def context(authorizer: RuleAuthorizer | None) -> RequestContext:
    connection = ConnectionContext(listener=LISTENER, client_host="h", client_port=2, authorizer=authorizer)
    return RequestContext(0, 12, 1, "c", connection, 0)


def test_the_authorizer_is_asked_once_for_each_operation_and_resource() -> None:
    authorizer = RuleAuthorizer()
    authorizer.deny((TOPIC, "b"))
    request = context(authorizer)
    for _ in range(3):
        assert request.allows_cached(Operation.WRITE, TOPIC, "a")
        assert not request.allows_cached(Operation.WRITE, TOPIC, "b")
        assert request.allows_cached(Operation.READ, TOPIC, "a")
        assert request.allows_cached(Operation.READ, ResourceType.GROUP, "a")
    assert authorizer.asked == 4
    assert context(authorizer).allows_cached(Operation.WRITE, TOPIC, "a")
    assert authorizer.asked == 5, "another connection asks for itself"


def test_a_change_of_the_rules_drops_every_decision() -> None:
    authorizer = RuleAuthorizer()
    request = context(authorizer)
    assert request.allows_cached(Operation.WRITE, TOPIC, "a")
    authorizer.deny((TOPIC, "a"))
    assert not request.allows_cached(Operation.WRITE, TOPIC, "a")
    authorizer.deny()
    assert request.allows_cached(Operation.WRITE, TOPIC, "a")
    assert authorizer.asked == 3


def test_a_client_that_logs_in_again_begins_without_decisions() -> None:
    authorizer = RuleAuthorizer()
    request = context(authorizer)
    names = iter(("bob", "carol"))
    request.connection.principal_builder = lambda _, principal: Principal(principal.type, next(names))
    for question_count, name in ((1, "bob"), (2, "carol")):
        request.connection.identify(Principal("User", "alice"))
        assert str(request.principal) == f"User:{name}"
        assert request.allows_cached(Operation.WRITE, TOPIC, "a")
        assert authorizer.asked == question_count


def test_the_cache_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorization, "CACHED_DECISIONS_MAX", 3)
    authorizer = RuleAuthorizer()
    request = context(authorizer)
    for number in range(10):
        assert request.allows_cached(Operation.WRITE, TOPIC, f"t{number}")
        decisions = request.connection.decisions
        assert decisions is not None
        assert len(decisions._decisions) <= 3


def test_a_connection_without_an_authorizer_has_no_cache() -> None:
    request = context(None)
    assert request.allows_cached(Operation.WRITE, TOPIC, "a")
    assert request.connection.decisions is None
