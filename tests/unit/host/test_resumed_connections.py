"""A connection after a pause: it reads the bytes that its stream keeps, and strangers wait for their turn."""

from __future__ import annotations

import asyncio
import socket
from collections import deque

from ottla.host.byte_stream import ENCRYPTED
from ottla.model.ports import World
from ottla.wire.connection.server import REQUESTS_IN_A_ROW_MAX
from tests.unit.host.test_connection import Peer, _close_what_is_open, sized
from tests.unit.host.test_strangers import gated_peer

__all__ = ["_close_what_is_open"]


class KeepingStream:
    """A stream that has decrypted bytes while its descriptor has none."""

    def __init__(self, connected: socket.socket) -> None:
        self.fileno = connected.fileno
        self.close = connected.close
        self.send = connected.send
        self.kept: deque[bytes] = deque()

    def recv_into(self, buffer: memoryview) -> int:
        if not self.kept:
            raise BlockingIOError
        data = self.kept.popleft()
        buffer[: len(data)] = data
        return len(data)


class OtherConnection:
    def send_answers(self) -> None:
        """It has nothing to send."""


def test_kept_bytes_are_read_after_a_pause_that_ends_in_the_turn_in_which_it_began(
    loop: asyncio.AbstractEventLoop, world: World
) -> None:
    peer = Peer(loop, world, stream_of=KeepingStream, traits=ENCRYPTED)
    connection = peer.connection
    requests = [b"request %d" % number for number in range(REQUESTS_IN_A_ROW_MAX + 2)]
    read_first = b"".join(sized(request) for request in requests[:-1])
    connection._stream.kept.extend([read_first, sized(requests[-1])])  # type: ignore[attr-defined]

    def turn() -> None:
        connection._shared.send_turn.postpones(OtherConnection())
        # The loop reports in one turn that the descriptor is readable and that it is writable.
        connection._on_readable()
        assert connection._is_reading
        connection.outbox_moved()

    loop.call_soon(turn)
    peer.until(lambda: len(peer.dispatcher.frames) == len(requests))
    assert [peer.receive() for _ in requests] == requests


def test_the_requests_of_a_stranger_after_a_pause_wait_for_their_turn(
    loop: asyncio.AbstractEventLoop, world: World
) -> None:
    peer, gate = gated_peer(loop, world)
    turns = peer.connection._shared.stranger_turns
    requests = [b"stranger %d" % number for number in range(3 * REQUESTS_IN_A_ROW_MAX)]
    peer.client.send(b"".join(sized(request) for request in requests))
    peer.connection._on_stranger_readable()
    assert gate.taken == requests[:REQUESTS_IN_A_ROW_MAX]
    # Other strangers use up the time of the following turns.
    turns_of_others = 0

    def use_up() -> None:
        nonlocal turns_of_others
        turns_of_others += 1
        turns._seconds_left = -1.0

    turns._seconds_left = -1.0
    turns._waiting.extend([use_up] * 20)

    async def watch() -> None:
        while turns_of_others < 20:
            assert gate.taken == requests[:REQUESTS_IN_A_ROW_MAX]
            assert turns.waiting <= 21 - turns_of_others, "the connection waits once"
            await asyncio.sleep(0)

    peer.run(watch())
    peer.until(lambda: gate.taken == requests)
    assert turns.waiting == 0
    assert [peer.receive() for _ in requests] == [b"at the gate"] * len(requests)


def test_a_stranger_that_is_closed_while_its_requests_wait(loop: asyncio.AbstractEventLoop, world: World) -> None:
    peer, gate = gated_peer(loop, world)
    turns = peer.connection._shared.stranger_turns
    peer.client.send(sized(b"stranger") * (REQUESTS_IN_A_ROW_MAX + 1))
    peer.connection._on_stranger_readable()
    turns._seconds_left = -1.0
    peer.connection._resume()
    assert turns.waiting == 1
    peer.connection.close()
    peer.until(lambda: not turns.waiting)
    assert len(gate.taken) == REQUESTS_IN_A_ROW_MAX
