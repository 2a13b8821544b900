"""Columns of bytes to columns of values, and back, with the serdes of an application."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.streams.columnar.rows import Column, Numbers, WindowedColumn
from ottla.streams.serdes import FunctionSerde, Serde, SessionWindowedSerde, TimeWindowedSerde

__all__ = ["decoded", "encoded", "encoded_values", "plain_type", "standard_name"]

_NUMBERS = {"long": (">i8", 8), "integer": (">i4", 4), "short": (">i2", 2), "double": (">f8", 8), "float_": (">f4", 4)}
# Types whose values pass a serde and come back the same; a float would lose digits in four bytes.
_PLAIN = {"string": str, "bytes_": bytes, "long": int, "integer": int, "short": int, "double": float}
_NONE = type(None)
_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


def standard_name(serde: Serde) -> str:
    """The name of a serde of `Serdes`; empty for other serdes."""
    return serde.name if isinstance(serde, FunctionSerde) and serde.is_standard else ""


def plain_type(serde: Serde) -> type | None:
    """Values of exactly this type cannot be changed in place and are equal after serialization."""
    return _PLAIN.get(standard_name(serde))


def decoded(content: pa.Array, serde: Serde, topic: str) -> Column:
    """Raises what the serde raises, or ArrowInvalid, if bytes cannot be read."""
    name = standard_name(serde)
    if name == "bytes_":
        return Column(array=content)
    if name == "string":
        return Column(array=content.cast(pa.string()))
    if name in _NUMBERS and not content.null_count:
        kind, size = _NUMBERS[name]
        fixed = content.cast(pa.binary(size))
        data = fixed.buffers()[1]
        numbers: Any = np.frombuffer(data, kind)[fixed.offset : fixed.offset + len(fixed)] if data else np.zeros(0)
        if kind[1] == "f":
            return Column(numbers.astype(np.float64).tolist())
        return Numbers(numbers=numbers.astype(np.int64))
    read = serde.deserialize
    return Column([None if raw is None else read(topic, raw) for raw in Column(array=content).values])


def encoded(column: Column, serde: Serde, topic: str) -> pa.Array:
    """An array of bytes. Raises what the serde raises for values that it cannot write."""
    name = standard_name(serde)
    known = column.known_array
    if known is not None and name == "string" and pa.types.is_string(known.type):
        return known.cast(pa.binary())
    if known is not None and name == "bytes_" and pa.types.is_binary(known.type):
        return known
    if name == "long" and isinstance(column, Numbers):
        return _fixed(column.numbers.astype(">i8"), 8)
    if isinstance(column, WindowedColumn) and isinstance(serde, TimeWindowedSerde | SessionWindowedSerde):
        return pa.array(_windowed(column, serde, topic), pa.binary())
    values = column.values
    if name in _PLAIN and set(map(type, values)) <= {_PLAIN[name], _NONE}:
        if name == "string":
            return pa.array(values, pa.string()).cast(pa.binary())
        if name == "bytes_":
            return pa.array(values, pa.binary())
        if name in ("long", "double") and None not in values:
            kind, size = _NUMBERS[name]
            try:
                return _fixed(np.array(values, kind), size)
            except OverflowError:
                # The serde below raises an error that names the value.
                pass
    write = serde.serialize
    return pa.array([None if value is None else write(topic, value) for value in values], pa.binary())


def encoded_values(column: Column, serde: Serde, topic: str) -> list[Any]:
    """As `encoded`, but a list of bytes and None."""
    return Column(array=encoded(column, serde, topic)).values


def _fixed(numbers: Any, size: int) -> pa.Array:
    content = pa.py_buffer(numbers.tobytes())
    return pa.Array.from_buffers(pa.binary(size), len(numbers), [None, content]).cast(pa.binary())


def _windowed(column: WindowedColumn, serde: Any, topic: str) -> list[bytes]:
    keys = encoded_values(Column(column.keys), serde.inner, topic)
    if isinstance(serde, TimeWindowedSerde):
        pack = _LONG.pack
        return [key + pack(start) for key, start in zip(keys, column.starts, strict=True)]
    pack_bounds = _TWO_LONGS.pack
    places = zip(keys, column.starts, column.ends, strict=True)
    return [key + pack_bounds(end, start) for key, start, end in places]
