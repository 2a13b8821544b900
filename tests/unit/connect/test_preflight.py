"""Requests of web pages of other addresses: a browser asks before it sends JSON, or deletes."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientSession

from ottla.connect.configuration.rest_listeners import RestListener
from ottla.connect.control.rest.server import RestServer

PAGE = "https://pages.example"


@pytest.mark.parametrize(("method", "path"), [("PUT", "/connectors/c/config"), ("DELETE", "/connectors/c")])
def test_a_page_of_an_allowed_origin_may_change_connectors(method: str, path: str) -> None:
    async def scenario() -> None:
        listeners = [RestListener("http", "127.0.0.1", 0)]
        server = RestServer(listeners, allow_origin=f"{PAGE},https://other.example", allow_methods="GET,PUT,DELETE")
        await server.start()
        headers = {
            "Origin": PAGE,
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "content-type",
        }
        url = f"http://127.0.0.1:{server.ports[0]}{path}"
        try:
            async with ClientSession() as session:
                async with session.options(url, headers=headers) as answer:
                    assert answer.status == 200
                    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
                    assert method in answer.headers["Access-Control-Allow-Methods"].split(",")
                    assert answer.headers["Access-Control-Allow-Headers"].lower() == "content-type"
                async with session.options(url, headers={**headers, "Origin": "https://evil.example"}) as answer:
                    assert "Access-Control-Allow-Origin" not in answer.headers
        finally:
            await server.stop()

    asyncio.run(scenario())
