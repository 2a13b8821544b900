"""A connection to something that is no broker."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.connection import Connection
from ottla.client.errors import ConnectionLost
from ottla.client.measures import RequestMeasures
from ottla.wire.peers import Endpoint


def feed(connection: Connection, data: bytes) -> None:
    """Feeds the data as a transport does: as much as the buffer has room for, until all of it is read."""
    while data:
        buffer = connection.get_buffer(-1)
        assert len(buffer) > 0, "no event loop takes an empty buffer"
        taken = data[: len(buffer)]
        buffer[: len(taken)] = taken
        connection.buffer_updated(len(taken))
        data = data[len(taken) :]


def test_an_answer_of_another_protocol_ends_it() -> None:
    async def talk_to_a_web_server() -> None:
        connection = Connection(
            Endpoint("127.0.0.1", 80), client_id="test", response_bytes_max=1_000_000, measures=RequestMeasures()
        )
        feed(connection, b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert connection.closed
        with pytest.raises(ConnectionLost, match="Kafka port"):
            await connection.negotiate()

    asyncio.run(talk_to_a_web_server())


def test_a_node_that_takes_nothing_is_given_up() -> None:
    async def send_to_a_node_that_hangs() -> None:
        connection = Connection(
            Endpoint("127.0.0.1", 80), client_id="test", response_bytes_max=1_000_000, measures=RequestMeasures()
        )
        await connection.drained(timeout_ms=0)
        connection.pause_writing()
        waiting = asyncio.ensure_future(connection.drained(timeout_ms=60_000))
        await asyncio.sleep(0)
        assert not waiting.done()
        connection.resume_writing()
        await waiting
        assert not connection.closed
        connection.pause_writing()
        await connection.drained(timeout_ms=1)
        assert connection.closed

    asyncio.run(send_to_a_node_that_hangs())
