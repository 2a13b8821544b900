"""Serializers that ask a registry do not block the event loop of a client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from ottla.client.consumer import ConsumedRecord
from ottla.client.consumer.deserializing import Deserializing
from ottla.client.producer import OutgoingRecord
from ottla.client.producer.serializing import Serializing
from ottla.serdes.network import check_network
from ottla.serdes.protocol import Deserializer, Header, Serializer


class Registered(Serializer[str]):
    """Asks for the schema of a topic once, and adds its id to the headers."""

    uses_network = True

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.threads: list[threading.Thread] = []

    def serialize(self, topic: str, value: str | None, headers: list[Header] | None = None) -> bytes | None:
        assert headers is not None
        headers.append(("schema", b"1"))
        if topic not in self.known:
            check_network()
            self.threads.append(threading.current_thread())
            self.known.add(topic)
        return None if value is None else value.encode()


class Looked(Deserializer[str]):
    uses_network = True

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.closed = 0

    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> str | None:
        check_network()
        self.threads.append(threading.current_thread())
        return None if data is None else bytes(data).decode()

    def close(self) -> None:
        self.closed += 1


def test_a_producer_asks_in_a_thread_and_uses_what_is_cached_on_the_loop() -> None:
    serializer = Registered()

    async def scenario() -> None:
        serializing = Serializing(None, serializer)
        for topic in ("a", "a", "b"):
            record = await serializing.record(OutgoingRecord(topic, "v", None, (), None, None))
            # The headers of the attempt on the loop are not kept.
            assert (record.value, record.headers) == (b"v", [("schema", b"1")])

    asyncio.run(scenario())
    assert len(serializer.threads) == 2
    assert threading.main_thread() not in serializer.threads


def test_a_consumer_deserializes_in_a_thread() -> None:
    deserializer = Looked()
    record = ConsumedRecord("t", 0, 0, 0, 0, None, b"v", (), 0)

    async def scenario() -> None:
        deserializing = Deserializing(None, deserializer)
        (deserialized,) = await deserializing.run(lambda: deserializing.apply([record]))
        assert deserialized.value == "v"

    asyncio.run(scenario())
    assert threading.main_thread() not in deserializer.threads
    # The connections of that thread are closed.
    assert deserializer.closed == 1
