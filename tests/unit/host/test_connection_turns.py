"""A client that sends faster than the node works does not keep the loop from other connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from ottla.host.byte_stream import PLAIN, StreamTraits
from ottla.host.connection import RECEIVE_BYTES_MAX
from ottla.model.ports import World
from tests.unit.host.test_connection import Peer, sized

# Every request of this test has no answer, as with acks=0, so no limit of a connection pauses it.
REQUEST = sized(b"nothing" + bytes(100_000))
TOTAL_BYTES = 20 * RECEIVE_BYTES_MAX // len(REQUEST) * len(REQUEST)


class FullStream:
    """A stream whose client has always sent enough, until all of its requests are read."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.fileno = connected.fileno
        self.close = connected.close
        self.position = 0

    def recv_into(self, buffer: memoryview) -> int:
        count = min(len(buffer), TOTAL_BYTES - self.position)
        if not count:
            raise BlockingIOError
        start = self.position % len(REQUEST)
        repeated = REQUEST * (2 + count // len(REQUEST))
        buffer[:count] = repeated[start : start + count]
        self.position += count
        return count

    def recvmsg_into(self, buffers: Iterable[memoryview]) -> tuple[int, Any, int, Any]:
        return sum(self.recv_into(buffer) for buffer in buffers if self.position < TOTAL_BYTES), [], 0, None


@pytest.mark.parametrize("traits", [PLAIN, StreamTraits(sends_files=False, keeps_bytes=True)])
def test_other_connections_are_served_while_a_client_sends(
    loop: asyncio.AbstractEventLoop, world: World, traits: StreamTraits
) -> None:
    peer = Peer(loop, world, stream_of=FullStream, traits=traits)
    stream: Any = peer.connection._stream
    # The descriptor stays readable.
    peer.client.send(b"x")
    turns: list[int] = []

    async def watch() -> None:
        while stream.position < TOTAL_BYTES:
            turns.append(stream.position)
            await asyncio.sleep(0)
        turns.append(stream.position)

    peer.run(watch())
    steps = [after - before for before, after in pairwise(turns)]
    # In one turn of the loop the descriptor may be readable, and a read may have been planned.
    assert max(steps) <= 2 * (RECEIVE_BYTES_MAX + len(REQUEST))
    peer.until(lambda: len(peer.dispatcher.frames) == TOTAL_BYTES // len(REQUEST))
    peer.connection.close()
    peer.client.close()
