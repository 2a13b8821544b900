"""Handshakes on the loop: bounded in time and in steps of a turn."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest

from ottla.host import tls_handshake
from ottla.host.stranger_turns import StrangerTurns
from ottla.host.tls_handshake import Handshakes
from tests.unit.host.test_tls_stream import CLIENT, SERVER


class Outcome:
    def __init__(self) -> None:
        self.done: list[ssl.SSLSocket] = []
        self.failed: list[str | None] = []

    @property
    def count(self) -> int:
        return len(self.done) + len(self.failed)

    def close(self) -> None:
        for tls_socket in self.done:
            tls_socket.close()


async def until(condition: object) -> None:
    async with asyncio.timeout(30):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


def new_handshakes() -> Handshakes:
    loop = asyncio.get_running_loop()
    return Handshakes(loop, StrangerTurns(loop))


def begin(handshakes: Handshakes, outcome: Outcome) -> socket.socket:
    near, far = socket.socketpair()
    near.setblocking(False)
    handshakes.begin(near, SERVER, outcome.done.append, outcome.failed.append)
    return far


def test_a_client_that_sends_too_slowly_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte of the handshake after another does not extend its time."""
    monkeypatch.setattr(tls_handshake, "HANDSHAKE_SECONDS_MAX", 0.3)
    outgoing = ssl.MemoryBIO()
    hello = CLIENT.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    data = outgoing.read()

    async def attack() -> None:
        outcome = Outcome()
        handshakes = new_handshakes()
        far = begin(handshakes, outcome)
        far.setblocking(False)
        for number in range(len(data) - 1):
            if outcome.failed:
                break
            far.send(data[number : number + 1])
            await asyncio.sleep(0.005)
        await until(lambda: outcome.failed)
        assert outcome.failed == ["no TLS handshake within 0 s"]
        assert len(handshakes) == 0
        assert far.recv(1) == b""
        far.close()

    asyncio.run(attack())


def test_other_callbacks_run_between_the_steps_of_many_handshakes() -> None:
    async def storm() -> None:
        loop = asyncio.get_running_loop()
        outcome = Outcome()
        handshakes = new_handshakes()
        most_at_once, before = 0, 0

        def turn() -> None:
            nonlocal most_at_once, before
            most_at_once, before = max(most_at_once, outcome.count - before), outcome.count
            if outcome.count < 30:
                loop.call_soon(turn)

        fars = [begin(handshakes, outcome) for _ in range(30)]
        loop.call_soon(turn)
        await asyncio.gather(
            *(
                asyncio.to_thread(lambda far=far: CLIENT.wrap_socket(far, server_hostname="localhost").close())
                for far in fars
            )
        )
        await until(lambda: outcome.count == 30)
        assert len(outcome.done) == 30
        # A turn has time for one step, or for a few that compute nothing.
        assert 0 < most_at_once < 10
        outcome.close()

    asyncio.run(storm())


def test_a_client_that_leaves_is_not_told_of() -> None:
    async def leave() -> None:
        outcome = Outcome()
        handshakes = new_handshakes()
        begin(handshakes, outcome).close()
        await until(lambda: outcome.failed)
        assert outcome.failed == [None]
        far = begin(handshakes, outcome)
        handshakes.close()
        assert outcome.failed == [None, None]
        far.close()

    asyncio.run(leave())
