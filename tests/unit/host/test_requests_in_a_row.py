"""A client that sends thousands of small requests at once does not keep the loop from other connections."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from ottla.model.ports import World
from ottla.wire.connection.server import REQUESTS_IN_A_ROW_MAX
from tests.unit.host.test_connection import Peer, framed, sized

REQUESTS = [b"small %04d" % number for number in range(1000)]


def most_requests_of_a_turn(peer: Peer, count: int) -> int:
    """Waits until that number of requests was handled."""
    handled = [0]

    async def watch() -> None:
        handled.append(len(peer.dispatcher.frames))
        while len(peer.dispatcher.frames) < count:
            await asyncio.sleep(0)
            handled.append(len(peer.dispatcher.frames))

    peer.run(watch())
    return max(after - before for before, after in pairwise(handled))


def close(peer: Peer) -> None:
    peer.connection.close()
    peer.client.close()


def test_requests_that_arrive_together_are_handled_over_several_turns(
    loop: asyncio.AbstractEventLoop, world: World
) -> None:
    peer = Peer(loop, world)
    peer.client.send(b"".join(sized(request) for request in REQUESTS))
    assert most_requests_of_a_turn(peer, len(REQUESTS)) <= 10 * REQUESTS_IN_A_ROW_MAX
    assert [peer.receive() for _ in REQUESTS] == REQUESTS
    close(peer)


def test_a_client_need_not_read_before_it_has_sent_all(loop: asyncio.AbstractEventLoop, world: World) -> None:
    peer = Peer(loop, world, send_buffer_bytes=5_000)
    for request in REQUESTS:
        peer.dispatcher.answers[request] = framed(b"x" * 200)
    peer.client.send(b"".join(sized(request) for request in REQUESTS))
    # The socket has no room for the answers, and they are far below the limit of unsent bytes.
    assert most_requests_of_a_turn(peer, len(REQUESTS)) <= 10 * REQUESTS_IN_A_ROW_MAX
    assert [peer.receive() for _ in REQUESTS] == [b"x" * 200] * len(REQUESTS)
    close(peer)
