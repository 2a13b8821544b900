"""Serializers and deserializers of keys and values.

The same objects serve producers and consumers, Connect, Spark and the command line. This package imports no broker and
no client: bytes in, values out. Avro, Protobuf and JSON Schema need the extra `registry`, which is not imported here.
"""

from __future__ import annotations

from ottla.serdes.lists import ListDeserializer, ListSerializer, list_serde
from ottla.serdes.plain import (
    BytesDeserializer,
    BytesSerializer,
    JsonDeserializer,
    JsonSerializer,
    StringDeserializer,
    StringSerializer,
    VoidDeserializer,
    VoidSerializer,
    plain_serde,
)
from ottla.serdes.protocol import Deserializer, Header, Serde, SerializationError, Serializer

__all__ = [
    "BytesDeserializer",
    "BytesSerializer",
    "Deserializer",
    "Header",
    "JsonDeserializer",
    "JsonSerializer",
    "ListDeserializer",
    "ListSerializer",
    "Serde",
    "SerializationError",
    "Serializer",
    "StringDeserializer",
    "StringSerializer",
    "VoidDeserializer",
    "VoidSerializer",
    "list_serde",
    "plain_serde",
]
