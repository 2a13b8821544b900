"""Clients of the metrics that do not complete their TLS handshakes do not keep scrapers out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from ottla.host import metrics_endpoint
from ottla.host.listener import bind
from ottla.host.loop import new_event_loop
from ottla.host.metrics_endpoint import CONNECTIONS_MAX, MetricsEndpoint
from ottla.host.stranger_turns import StrangerTurns
from ottla.host.tls_listener import TlsListener
from tests.unit.host.test_metrics_endpoint import OPTIONS, Pages
from tests.unit.host.test_tls_listener import AUTHORITY, config

T = TypeVar("T")


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


async def count_connections(endpoint: MetricsEndpoint, tls: TlsListener, trusted: ssl.SSLContext) -> int:
    """Two clients connect, and two more complete their handshakes after that. None sends a request."""
    streams = [
        await asyncio.open_connection("127.0.0.1", endpoint.port, ssl=trusted, server_hostname="localhost")
        for _ in range(2)
    ]
    while tls.handshakes:
        await asyncio.sleep(0)
    late = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(2)]
    while tls.handshakes < 2:
        await asyncio.sleep(0)
    for _, writer in late:
        await writer.start_tls(trusted, server_hostname="localhost")
    while tls.handshakes:
        await asyncio.sleep(0)
    count = len(endpoint._connections)
    for _, writer in [*streams, *late]:
        writer.close()
    return count


def run(test: Callable[[MetricsEndpoint, TlsListener, ssl.SSLContext], Coroutine[Any, Any, T]]) -> T:
    loop = new_event_loop()
    try:
        tls = TlsListener(loop, config(AUTHORITY.for_node("localhost")), "PLAINTEXT", StrangerTurns(loop))
        bound = bind("127.0.0.1", 0, OPTIONS)
        endpoint = MetricsEndpoint(loop=loop, bound_socket=bound, pages=Pages(), tls=tls)
        trusted = ssl.create_default_context(cadata=AUTHORITY.certificate)
        outcome = loop.run_until_complete(asyncio.wait_for(test(endpoint, tls, trusted), 60))
        endpoint.close()
        return outcome
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def test_unfinished_handshakes_keep_no_scraper_out() -> None:
    answer = run(lambda endpoint, _, trusted: ask_beside_silent_clients(endpoint, trusted))
    assert answer.endswith(b"live\n")


def test_connections_count_when_their_handshake_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(metrics_endpoint, "REQUEST_SECONDS_MAX", 3600)
    assert run(count_connections) == 2
