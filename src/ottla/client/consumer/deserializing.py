"""Deserializers of a consumer: keys and values of polled records as objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.consumer.decode import ConsumedRecord
from ottla.serdes.protocol import Deserializer, SerializationError

__all__ = ["Deserializing"]

T = TypeVar("T")


class Deserializing:
    def __init__(self, key: Deserializer[Any] | None, value: Deserializer[Any] | None) -> None:
        self.key = key
        self.value = value
        self._networked = [
            deserializer for deserializer in (key, value) if getattr(deserializer, "uses_network", False)
        ]

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    def configure(self, config: Mapping[str, Any]) -> None:
        if self.key is not None:
            self.key.configure(config, is_key=True)
        if self.value is not None:
            self.value.configure(config, is_key=False)

    def close(self) -> None:
        for deserializer in (self.key, self.value):
            if deserializer is not None:
                deserializer.close()

    async def run(self, work: Callable[[], T]) -> T:
        """Calls a function that deserializes: in a thread if it may ask a registry, so that the event loop goes on."""
        return await asyncio.to_thread(self._in_thread, work) if self._networked else work()

    def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return work()
        finally:
            # Connections belong to their thread, which may never be used again.
            for deserializer in self._networked:
                assert deserializer is not None
                deserializer.close()

    def apply(self, records: Sequence[ConsumedRecord]) -> list[ConsumedRecord]:
        """The records before the first that cannot be deserialized. Raises the error if there are none."""
        deserialized: list[ConsumedRecord] = []
        for record in records:
            try:
                deserialized.append(self._applied(record))
            except Exception as error:
                if deserialized:
                    return deserialized
                if not isinstance(error, SerializationError):
                    raise
                raise error.at(
                    topic=record.topic, partition=record.partition, offset=record.offset
                ) from error.__cause__
        return deserialized

    def _applied(self, record: ConsumedRecord) -> ConsumedRecord:
        key, value, headers = record.key, record.value, record.headers
        if self.key is not None:
            key = self.key.deserialize(record.topic, key, headers)
        if self.value is not None:
            value = self.value.deserialize(record.topic, value, headers)
        return record._replace(key=key, value=value)
