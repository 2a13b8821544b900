"""HEAD is answered like GET, without a body: load balancers ask so whether a worker lives."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientSession

from ottla.connect.configuration.rest_listeners import RestListener
from ottla.connect.control.rest.server import RestServer


@pytest.mark.parametrize("path", ["/health", "/connectors"])
def test_head_has_the_status_of_get(path: str) -> None:
    async def scenario() -> None:
        server = RestServer([RestListener("http", "127.0.0.1", 0)])
        await server.start()
        url = f"http://127.0.0.1:{server.ports[0]}{path}"
        try:
            async with ClientSession() as session, session.get(url) as expected, session.head(url) as answer:
                assert answer.status == expected.status == 503
        finally:
            await server.stop()

    asyncio.run(scenario())
