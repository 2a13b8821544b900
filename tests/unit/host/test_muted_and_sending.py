"""A muted connection whose answer is sent slowly does not count as idle either."""

from __future__ import annotations

import asyncio

from ottla.model.ports import World
from tests.unit.host.test_connection import Peer, framed


def test_a_muted_connection_that_sends_its_answer_is_not_idle(loop: asyncio.AbstractEventLoop, world: World) -> None:
    peer = Peer(loop, world, send_buffer_bytes=10_000)
    peer.dispatcher.mutes[b"be silent"] = 1000.0
    peer.dispatcher.answers[b"be silent"] = framed(b"x" * 500_000)
    peer.send(b"be silent")
    # The socket takes a part of the answer, and the rest after the client has read.
    assert peer.receive() == b"x" * 500_000
    assert peer.connection.last_active > loop.time() + 900
    peer.connection.close()
    peer.client.close()
