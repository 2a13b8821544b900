"""A listener that stops does not serve the clients whose TLS handshake it has begun."""

from __future__ import annotations

import asyncio

from ottla.host.stranger_turns import StrangerTurns
from ottla.host.tls_listener import TlsListener
from ottla.model.ports import World
from tests.unit.host.test_listener import Served
from tests.unit.host.test_tls_listener import AUTHORITY, config


def test_a_listener_that_stops_ends_its_handshakes(loop: asyncio.AbstractEventLoop, world: World) -> None:
    served = Served(loop, world)
    listener = served.listen()
    tls = listener._tls = TlsListener(loop, config(AUTHORITY.for_node("localhost")), "PLAINTEXT", StrangerTurns(loop))
    client = served.connect(listener)

    async def accept() -> None:
        while not tls.handshakes:
            await asyncio.sleep(0)

    served.run(accept())
    listener.stop_accepting()
    assert tls.handshakes == 0
    assert served.run(loop.sock_recv(client, 1)) == b""
    client.close()
    listener.close_connections()
