"""Checks of passwords: a client with wrong passwords does not keep clients of other addresses waiting."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import make_mocked_request

from ottla.registry.core.errors import RegistryError
from ottla.registry.node import passwords
from ottla.registry.node.guard import Guard
from ottla.registry.node.passwords import Passwords, hashed_password
from ottla.registry.node.server import RegistryServer
from tests.unit.registry.test_hostile_requests import Service

# The guard stores request state under plain names, which aiohttp allows but does not recommend.
pytestmark = pytest.mark.filterwarnings("ignore::aiohttp.web_exceptions.NotAppKeyWarning")


class Transport:
    """The connection of a client with this address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._address, 4711) if name == "peername" else default


def request(address: str, password: str, user: str = "alice") -> Any:
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    transport: Any = Transport(address)
    return make_mocked_request("GET", "/", headers={"Authorization": f"Basic {credentials}"}, transport=transport)


def test_a_client_cannot_fill_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []
    matches = passwords._matches

    def counted(password: str, expected: str) -> bool:
        checks.append(password)
        return matches(password, expected)

    monkeypatch.setattr(passwords, "_ITERATIONS", 1)
    monkeypatch.setattr(passwords, "_matches", counted)

    async def scenario() -> None:
        guard = Guard(passwords=Passwords({"alice": hashed_password("right")}))
        guesses = [asyncio.ensure_future(guard.admit(request("10.0.0.1", f"wrong{number}"))) for number in range(300)]
        await asyncio.sleep(0)
        await guard.admit(request("10.0.0.2", "right"))
        # The addresses take turns.
        assert len(checks) <= 4
        outcomes = await asyncio.gather(*guesses, return_exceptions=True)
        codes = [outcome.code for outcome in outcomes if isinstance(outcome, RegistryError)]
        assert (len(codes), set(codes)) == (300, {401, 429})
        # The place in the queue is free again.
        with pytest.raises(RegistryError, match="Unauthorized"):
            await guard.admit(request("10.0.0.1", "wrong"))

    asyncio.run(scenario())


def test_clients_of_one_address_that_start_together(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []

    def counted(password: str, _expected: str) -> bool:
        checks.append(password)
        return password == "right"

    monkeypatch.setattr(passwords, "_ITERATIONS", 1)
    monkeypatch.setattr(passwords, "_matches", counted)

    async def scenario() -> None:
        guard = Guard(passwords=Passwords({"alice": hashed_password("right")}))
        starting = [asyncio.ensure_future(guard.admit(request("10.0.0.1", "right"))) for _ in range(100)]
        await asyncio.sleep(0)
        # A client that gives up does not take the others with it.
        starting.pop(0).cancel()
        await asyncio.gather(*starting)
        assert checks == ["right"]

    asyncio.run(scenario())


def test_users_behind_one_proxy_that_start_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_ITERATIONS", 1)
    users = {f"user{number}": hashed_password(f"secret{number}") for number in range(60)}

    async def scenario() -> None:
        guard = Guard(passwords=Passwords(users))
        await asyncio.gather(
            *(guard.admit(request("10.0.0.1", f"secret{number}", f"user{number}")) for number in range(60))
        )

    asyncio.run(scenario())


def test_a_check_that_is_given_up_passes_its_turn_on() -> None:
    async def scenario() -> None:
        turns = passwords._Turns()
        await turns.wait("10.0.0.1")
        waiting = [asyncio.ensure_future(turns.wait(f"10.0.0.{number}")) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        turns.end()
        # This one has its turn already, but has not noticed.
        waiting[1].cancel()
        await waiting[2]
        turns.end()
        await turns.wait("10.0.0.1")

    asyncio.run(scenario())


def test_the_answer_to_too_many_checks(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(passwords, "_CHECKS_OF_ADDRESS_MAX", 0)
    caplog.set_level(logging.INFO, logger="ottla.registry.audit")

    async def scenario() -> None:
        guard = Guard(passwords=Passwords({"alice": hashed_password("right")}))
        server = RegistryServer("127.0.0.1", 0, Service(), guard=guard)
        await server.start()
        try:
            url = f"http://127.0.0.1:{server.port}/subjects"
            headers = {"Authorization": f"Basic {base64.b64encode(b'alice:right').decode()}"}
            async with ClientSession() as session, session.get(url, headers=headers) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
                # The credentials may be right: the client need not ask a person for others.
                assert "WWW-Authenticate" not in answer.headers
        finally:
            await server.stop()

    asyncio.run(scenario())
    assert [json.loads(record.message)["status"] for record in caplog.records if record.name.endswith("audit")] == [429]
