"""Clients of the metrics that do not complete their TLS handshakes do not keep scrapers out."""

from __future__ import annotations

import asyncio
import ssl

from ottla.host.listener import bind
from ottla.host.loop import new_event_loop
from ottla.host.metrics_endpoint import CONNECTIONS_MAX, MetricsEndpoint
from ottla.host.stranger_turns import StrangerTurns
from ottla.host.tls_listener import TlsListener
from tests.unit.host.test_metrics_endpoint import OPTIONS, Pages
from tests.unit.host.test_tls_listener import AUTHORITY, config


async def ask_beside_silent_clients(endpoint: MetricsEndpoint, trusted: ssl.SSLContext) -> bytes:
    silent = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(2 * CONNECTIONS_MAX)]
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", endpoint.port, ssl=trusted, server_hostname="localhost"
        )
        writer.write(b"GET /health/live HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer
    finally:
        for _, held in silent:
            held.close()


def test_unfinished_handshakes_keep_no_scraper_out() -> None:
    loop = new_event_loop()
    try:
        tls = TlsListener(loop, config(AUTHORITY.for_node("localhost")), "PLAINTEXT", StrangerTurns(loop))
        bound = bind("127.0.0.1", 0, OPTIONS)
        endpoint = MetricsEndpoint(loop=loop, bound_socket=bound, pages=Pages(), tls=tls)
        trusted = ssl.create_default_context(cadata=AUTHORITY.certificate)
        answer = loop.run_until_complete(asyncio.wait_for(ask_beside_silent_clients(endpoint, trusted), 60))
        assert answer.endswith(b"live\n")
        endpoint.close()
    finally:
        loop.close()
        asyncio.set_event_loop(None)
