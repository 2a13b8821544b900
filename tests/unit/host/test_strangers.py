"""Connections of clients that have not logged in: they wait for their turn, and cost nothing after their end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from ottla.host.connection import Connection
from ottla.host.stranger_turns import SECONDS_PER_TURN
from ottla.model.ports import World
from tests.unit.host.test_connection import Peer, _close_what_is_open, framed

__all__ = ["_close_what_is_open"]


class FakeGate:
    """Opens with the request `open sesame`, and answers others itself."""

    close_reason: str | None = None
    request_bytes_max = 1000
    takes_bare_tokens = False
    is_removable = True

    def __init__(self) -> None:
        self.is_open = False
        self.taken: list[bytes] = []

    def take(self, frame: memoryview, connection: object, waiter: object) -> list[Any]:
        self.taken.append(bytes(frame))
        self.is_open = bytes(frame) == b"open sesame"
        return framed(b"at the gate")


class Placeholder:
    def close(self) -> None:
        """There is nothing to close."""


def gated_peer(loop: asyncio.AbstractEventLoop, world: World) -> tuple[Peer, FakeGate]:
    gate = FakeGate()
    return Peer(loop, world, gate=gate), gate


def test_a_stranger_waits_while_the_turn_has_no_time(loop: asyncio.AbstractEventLoop, world: World) -> None:
    peer, gate = gated_peer(loop, world)
    turns = peer.connection._shared.stranger_turns
    turns.run(lambda: setattr(turns, "_seconds_left", 0.0))
    peer.send(b"somebody")
    assert peer.receive() == b"at the gate"
    assert gate.taken == [b"somebody"]
    # Time is used up again in the same turn, by a step that runs before this one.
    turns._seconds_left = -1.0
    peer.connection._on_stranger_readable()
    assert turns.waiting == 1
    assert not peer.connection._is_reading
    peer.send(b"somebody else")
    assert peer.receive() == b"at the gate"
    assert peer.connection._is_reading


def test_a_client_that_has_logged_in_does_not_wait(loop: asyncio.AbstractEventLoop, world: World) -> None:
    peer, _ = gated_peer(loop, world)
    peer.send(b"open sesame")
    assert peer.receive() == b"at the gate"
    peer.send(b"first request")
    assert peer.receive() == b"first request"
    turns = peer.connection._shared.stranger_turns
    turns._seconds_left = SECONDS_PER_TURN
    turns._waiting.append(lambda: None)
    peer.send(b"second request")
    assert peer.receive() == b"second request"
    assert peer.connection._reader == peer.connection._on_readable


def test_a_stranger_that_leaves_while_it_waits(loop: asyncio.AbstractEventLoop, world: World) -> None:
    peer, gate = gated_peer(loop, world)
    turns = peer.connection._shared.stranger_turns
    turns._seconds_left = -1.0
    peer.connection._on_stranger_readable()
    peer.connection.close()
    peer.until(lambda: turns.waiting == 0)
    assert gate.taken == []


@pytest.mark.parametrize("is_gated", [True, False])
def test_reference_counting_frees_a_closed_connection(
    loop: asyncio.AbstractEventLoop, world: World, is_gated: bool
) -> None:
    peer = gated_peer(loop, world)[0] if is_gated else Peer(loop, world)
    peer.send(b"parked request" if is_gated else b"park this")
    if is_gated:
        peer.receive()
    else:
        peer.until(lambda: peer.dispatcher.parked)
    gc.collect()
    gc.disable()
    try:
        peer.connection.close()
        loop.run_until_complete(asyncio.sleep(0))
        # The send turn keeps a reference to the sender of the last answer.
        peer.connection._shared.send_turn._last = None
        peer.connection = Placeholder()  # type: ignore[assignment]
        assert not [tracked for tracked in gc.get_objects() if type(tracked) is Connection]
    finally:
        gc.enable()
    for parked in peer.dispatcher.parked:
        parked.resolve(b"too late")
