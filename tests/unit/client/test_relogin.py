"""Logging in again: a login that cannot be repeated ends the connection, whatever the reason."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.errors import AuthenticationFailed
from ottla.client.relogin import Relogin
from ottla.sasl.plain import PlainClient
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse


class FakeConnection:
    """Answers a login with the outcome that the test sets."""

    endpoint = SimpleNamespace(host="node")

    def __init__(self, answers: list[Any]) -> None:
        self._answers = answers
        self.closed = False
        self.is_held = False
        self.has_ended = asyncio.Event()

    async def ask_at_once(self, *_: object, **__: object) -> Any:
        return self._answers.pop(0)

    def hold_requests(self) -> None:
        self.is_held = True

    def release_requests(self) -> None:
        self.is_held = False

    def close(self, reason: str) -> None:
        assert "the next one failed" in reason
        self.closed = True
        self.has_ended.set()


class FakeLogin:
    mechanism, user = "PLAIN", "alice"

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def exchange(self, host: str) -> PlainClient:
        if self._error is not None:
            raise self._error
        return PlainClient("alice", "secret")


@pytest.mark.parametrize(
    ("error", "answers"),
    [
        (AuthenticationFailed("no token"), []),
        (LookupError("a defect in a source of tokens"), []),
        (None, [SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=32_000)]),
    ],
    ids=["a refusal", "a defect", "an unknown error"],
)
def test_a_login_that_cannot_be_repeated_ends_the_connection(error: Exception | None, answers: list[Any]) -> None:
    async def run() -> None:
        connection: Any = FakeConnection(answers)
        Relogin(connection, FakeLogin(error), timeout_ms=1_000).plan(1)
        await asyncio.wait_for(connection.has_ended.wait(), 10)

    asyncio.run(run())
