"""The built-in converters, for `key.converter`, `value.converter` and `header.converter`."""

from __future__ import annotations

from ottla.connect.plugins.converters.avro import AvroConverter
from ottla.connect.plugins.converters.json import JsonConverter
from ottla.connect.plugins.converters.primitives import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from ottla.connect.plugins.converters.registry import JsonSchemaConverter, ProtobufConverter
from ottla.connect.plugins.converters.text import SimpleHeaderConverter, StringConverter

__all__ = [
    "AvroConverter",
    "BooleanConverter",
    "ByteArrayConverter",
    "DoubleConverter",
    "FloatConverter",
    "IntegerConverter",
    "JsonConverter",
    "JsonSchemaConverter",
    "LongConverter",
    "ProtobufConverter",
    "ShortConverter",
    "SimpleHeaderConverter",
    "StringConverter",
]
