"""Serializers of a producer: keys and values as bytes.

A serializer that needs its registry is called again in a thread, so that the event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.client.producer.interceptors import OutgoingRecord
from ottla.serdes.network import NetworkNeeded, without_network
from ottla.serdes.protocol import Header, Serializer

__all__ = ["Serializing"]

# Serializers by the type of a value, for the error message about a value that is not bytes.
_SERIALIZERS = {"str": "string", "int": "long", "float": "double", "dict": "json", "list": "json", "UUID": "uuid"}
# Key, value and headers.
Converted = tuple[Any, Any, list[Header]]


class Serializing:
    def __init__(self, key: Serializer[Any] | None, value: Serializer[Any] | None) -> None:
        self.key = key
        self.value = value
        self._networked = [serializer for serializer in (key, value) if getattr(serializer, "uses_network", False)]

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    def configure(self, config: Mapping[str, Any]) -> None:
        for serializer, is_key in ((self.key, True), (self.value, False)):
            if serializer is not None:
                serializer.configure(config, is_key=is_key)

    def close(self) -> None:
        for serializer in (self.key, self.value):
            if serializer is not None:
                serializer.close()

    def explain(self, error: TypeError, *, key: Any, value: Any) -> None:
        """Raises a TypeError with the remedy for a key or value that is not bytes and has no serializer."""
        for name, content, serializer in (("key", key, self.key), ("value", value, self.value)):
            if serializer is None and content is not None and not isinstance(content, bytes | bytearray | memoryview):
                kind = type(content).__name__
                known = _SERIALIZERS.get(kind)
                setting = "a serializer" if known is None else f"{name}.serializer={known}"
                raise TypeError(f"The {name} is of type {kind}, not bytes: set {setting}, or convert it.") from error

    async def record(self, record: OutgoingRecord) -> OutgoingRecord:
        key, value, headers = await self.convert(record.topic, record.key, record.value, record.headers)
        return record._replace(value=value, key=key, headers=headers)

    async def convert(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Converted:
        if not self._networked:
            return self._convert(topic, key, value, headers)
        try:
            with without_network():
                return self._convert(topic, key, value, headers)
        except NetworkNeeded:
            return await asyncio.to_thread(self._convert_in_thread, topic, key, value, headers)

    def _convert(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Converted:
        # Serializers may append headers, such as the id of a schema.
        own = list(headers)
        if self.key is not None:
            key = self.key.serialize(topic, key, own)
        if self.value is not None:
            value = self.value.serialize(topic, value, own)
        return key, value, own

    def _convert_in_thread(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Converted:
        try:
            return self._convert(topic, key, value, headers)
        finally:
            # Connections belong to their thread, which may never be used again.
            for serializer in self._networked:
                assert serializer is not None
                serializer.close()
