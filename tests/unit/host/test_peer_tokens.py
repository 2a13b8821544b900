"""The bearer token of a node: kept, shared, renewed in time, and used while it is valid if there is no newer one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.host.peer_tokens import PeerTokens
from ottla.model.deferred import Deferred
from ottla.sasl.client_tokens import ClientToken
from ottla.sasl.exchange import SaslError


class Endpoint:
    """Makes tokens that live for 100 seconds, until it fails."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: str | None = None
        self.life_ms = 100_000

    def fetch(self) -> ClientToken:
        self.asked += 1
        if self.failure is not None:
            raise SaslError(self.failure)
        return ClientToken(f"token-{self.asked}", int(time.time() * 1000) + self.life_ms)


class LaterWorkers:
    """Runs submitted work when the test asks for it."""

    def __init__(self) -> None:
        self._submitted: list[tuple[Callable[[], Any], Deferred[Any]]] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        deferred: Deferred[Any] = Deferred()
        self._submitted.append((lambda: function(*arguments), deferred))
        return deferred

    def run(self) -> None:
        for function, deferred in self._submitted:
            try:
                deferred.resolve(function())
            except SaslError as error:
                deferred.fail(error)
        self._submitted.clear()


def test_a_token_is_kept_until_most_of_its_life_has_passed() -> None:
    endpoint = Endpoint()
    tokens = PeerTokens(endpoint.fetch, user="node")
    assert tokens.current().result().value == "token-1"
    assert tokens.current().result().value == "token-1"
    assert 79_000 < tokens._stale_at_ms - time.time() * 1000 <= 80_000
    tokens._stale_at_ms = 0
    assert tokens.current().result().value == "token-2"


def test_logins_at_the_same_time_share_a_fetch() -> None:
    endpoint, workers = Endpoint(), LaterWorkers()
    tokens = PeerTokens(endpoint.fetch, user="node", workers=workers)  # type: ignore[arg-type]
    waiting = [tokens.current() for _ in range(5)]
    assert not any(pending_token.done for pending_token in waiting)
    workers.run()
    assert {pending_token.result().value for pending_token in waiting} == {"token-1"}
    assert tokens.current().result().value == "token-1"


def test_a_failed_fetch_is_repeated_with_the_next_login() -> None:
    endpoint, workers = Endpoint(), LaterWorkers()
    endpoint.failure = "gone"
    tokens = PeerTokens(endpoint.fetch, user="node", workers=workers)  # type: ignore[arg-type]
    first = tokens.current()
    workers.run()
    assert str(first.error) == "gone"
    endpoint.failure = None
    second = tokens.current()
    workers.run()
    assert second.result().value == "token-2"


@pytest.mark.parametrize(("life_ms", "is_used"), [(100_000, True), (1_000, False)])
def test_the_old_token_is_used_while_it_is_valid(life_ms: int, is_used: bool) -> None:
    endpoint = Endpoint()
    endpoint.life_ms = life_ms
    tokens = PeerTokens(endpoint.fetch, user="node")
    assert tokens.current().result().value == "token-1"
    tokens._stale_at_ms = 0
    endpoint.failure = "gone"
    again = tokens.current()
    if is_used:
        assert again.result().value == "token-1"
    else:
        assert str(again.error) == "gone"
    assert endpoint.asked == 2
