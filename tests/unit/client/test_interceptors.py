"""Interceptors of a producer are notified of the outcome of every record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.producer import Producer, ProducerSettings
from ottla.client.producer.interceptors import ProducerInterceptor, RecordMetadata
from ottla.client.settings import ClientSettings
from ottla.serdes.protocol import Serializer


class Observer(ProducerInterceptor):
    def __init__(self) -> None:
        self.ends: list[tuple[int, type[Exception] | None]] = []

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.ends.append((metadata.offset, None if error is None else type(error)))


class Broken(Serializer[Any]):
    def serialize(self, topic: str, value: Any, headers: Any = None) -> bytes | None:
        raise KeyError(value)


def test_an_error_of_a_serializer_is_an_end_too() -> None:
    observer = Observer()

    async def scenario() -> None:
        settings = ProducerSettings(interceptors=(observer,), value_serializer=Broken())
        async with Producer(ClientSettings(bootstrap_servers=()), settings) as producer:
            with pytest.raises(KeyError):
                await producer.send("t", 5)

    asyncio.run(scenario())
    assert observer.ends == [(-1, KeyError)]
