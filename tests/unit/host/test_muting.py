"""Connections that are silent for a while, because their client has used too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.host import muting
from ottla.host.connection import Connection
from ottla.model.ports import World
from tests.unit.host.test_connection import Peer, framed


@pytest.fixture
def peer(loop: asyncio.AbstractEventLoop, world: World) -> Iterator[Peer]:
    peer = Peer(loop, world)
    yield peer
    peer.connection.close()
    peer.client.close()


@pytest.mark.parametrize("size", [20, 20_000, 60_000])
def test_a_muted_connection_is_not_read_from_for_a_while(
    peer: Peer, loop: asyncio.AbstractEventLoop, size: int
) -> None:
    requests = [b"mute %04d" % number + b"x" * (size - 9) for number in range(8)]
    for request in requests:
        peer.dispatcher.answers[request] = framed(request[:9])
        peer.dispatcher.mutes[request] = 0.02
    started = loop.time()
    peer.send(*requests)
    for request in requests:
        # The answer comes at once; the next request is heard later, though it has come with the one before.
        assert peer.receive() == request[:9]
        assert loop.time() - started >= (len(peer.dispatcher.frames) - 1) * 0.02 - 0.001
    peer.send(b"after it")
    assert peer.receive() == b"after it"


def test_a_muted_connection_sleeps(peer: Peer, loop: asyncio.AbstractEventLoop) -> None:
    """And does not ask in every turn of the loop whether it may go on."""
    peer.dispatcher.mutes[b"be silent"] = 1000.0
    peer.send(b"be silent", b"not heard")
    assert peer.receive() == b"be silent"
    for _ in range(5):
        peer.run(asyncio.sleep(0))
    assert not peer.connection._flush_planned
    assert len(peer.dispatcher.frames) == 1
    # The longer silence counts.
    peer.connection.mute(0.001)
    assert peer.connection._muting is not None
    assert peer.connection._muting.until > loop.time() + 900
    peer.connection.close()
    timer: Any = peer.connection._muting.timer
    assert timer.cancelled()


def until(peer: Peer, holds: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not holds():
            await asyncio.sleep(0.001)

    peer.run(asyncio.wait_for(wait(), 60))


def test_a_client_that_leaves_while_it_is_muted_is_noticed(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(muting, "CHECK_SECONDS", 0.001)
    peer.dispatcher.mutes[b"be silent"] = 1000.0
    peer.send(b"be silent")
    assert peer.receive() == b"be silent"
    assert not peer.connection.closed
    peer.client.close()
    until(peer, lambda: peer.connection.closed)


@pytest.mark.parametrize("sent_at_once", [True, False])
def test_what_it_has_left_behind_is_handled_first(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, *, sent_at_once: bool
) -> None:
    monkeypatch.setattr(muting, "CHECK_SECONDS", 0.001)
    looks: list[None] = []
    look = Connection._close_if_client_left
    monkeypatch.setattr(Connection, "_close_if_client_left", lambda self: (looks.append(None), look(self)))
    peer.dispatcher.mutes[b"be silent"] = 1000.0
    if sent_at_once:
        peer.send(b"be silent", b"without an answer")
        assert peer.receive() == b"be silent"
    else:
        peer.send(b"be silent")
        assert peer.receive() == b"be silent"
        peer.send(b"without an answer")
    peer.client.close()
    until(peer, lambda: len(looks) > 5)
    assert not peer.connection.closed
    assert peer.connection._muting is not None
    # Its time is over.
    peer.connection._muting.until = peer.connection._loop.time()
    until(peer, lambda: len(peer.dispatcher.frames) == 2)
