"""Avro types that contain themselves: the depth of their values has a limit here.

fastavro's compiled reader has none: a few thousand levels overflow the stack and end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ottla.serdes.avro_fields import named_types

__all__ = ["DepthLimit", "depth_limit", "endless_record"]

# Levels are records, unions, arrays, maps and the values in them. The compiled reader takes about a kilobyte of the
# stack for a level.
LEVELS_MAX = 2_000
# A level of a recursive type takes at least a byte, so short values need no check.
_UNCHECKED_BYTES = 1_000
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_BITS = 64


def depth_limit(parsed: Any) -> DepthLimit | None:
    """The check of values of a schema that fastavro has parsed; None if no type contains itself."""
    return DepthLimit(parsed) if _self_containing(parsed, _contained) is not None else None


def endless_record(parsed: Any) -> str | None:
    """A record that contains itself in every value, so that no value has an end. A level of it takes no bytes."""
    return _self_containing(parsed, _always_contained)


class DepthLimit:
    """Finds the depth of values without recursion."""

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed
        self._named = named_types(parsed)

    def check(self, data: memoryview) -> None:
        """Raises ValueError if the value has too many levels, or an exception of a reader if it is damaged."""
        if len(data) <= _UNCHECKED_BYTES:
            return
        reader = _Reader(data)
        # Types of the values that follow, the last one first, with the level and the number of the values.
        following: list[tuple[Any, int, int]] = [(self._parsed, 1, 1)]
        while following:
            schema, level, count = following.pop()
            if level > LEVELS_MAX:
                raise ValueError(f"the value has more than {LEVELS_MAX} levels")
            if count > 1:
                following.append((schema, level, count - 1))
            following.extend(self._parts(schema, level, reader))

    def _parts(self, schema: Any, level: int, reader: _Reader) -> list[tuple[Any, int, int]]:
        """Reads the beginning of a value. Returns the types that follow in it, the last one first."""
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(schema, list):
            return [(schema[reader.size()], level + 1, 1)]
        if isinstance(schema, tuple):
            return [(part, level, 1) for part in reversed(schema)]
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return [(kind, level, 1)]
        if kind in ("record", "error"):
            return [(field["type"], level + 1, 1) for field in reversed(schema["fields"])]
        if kind in ("array", "map"):
            count = reader.block()
            entry = schema["items"] if kind == "array" else ("string", schema["values"])
            # Another block follows, until a block is empty.
            return [(schema, level, 1), (entry, level + 1, count)] if count else []
        if kind in ("int", "long", "enum"):
            reader.number()
        elif kind in ("string", "bytes"):
            reader.skip(reader.size())
        else:
            reader.skip(schema["size"] if kind == "fixed" else _SIZES[kind])
        return []


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    def skip(self, length: int) -> None:
        self._position += length
        if self._position > len(self._data):
            raise EOFError("the value is cut off")

    def number(self) -> int:
        bits = shift = 0
        while True:
            self.skip(1)
            byte = self._data[self._position - 1]
            bits |= (byte & 0x7F) << shift
            shift += 7
            # Readers differ in what longer numbers are.
            if bits >> _VARINT_BITS or shift > _VARINT_BITS + 7:
                raise ValueError("a number has more than 64 bits")
            if byte < 0x80:
                return (bits >> 1) ^ -(bits & 1)

    def size(self) -> int:
        """A length, or the index of a union's branch."""
        number = self.number()
        if number < 0:
            raise ValueError(f"a length is {number}")
        return number

    def block(self) -> int:
        """The number of entries in a block."""
        count = self.number()
        if count < 0:
            # The length of the block in bytes follows.
            self.number()
        return abs(count)


def _contained(schema: Any) -> Iterator[Any]:
    """The types directly within a type."""
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, dict):
        yield from (schema[part] for part in ("items", "values") if part in schema)
        yield from _always_contained(schema)


def _always_contained(schema: Any) -> Iterator[Any]:
    """The types directly within a type that every value contains. Arrays and maps may be empty, unions are a choice."""
    if isinstance(schema, dict):
        yield from (field["type"] for field in schema.get("fields") or ())
        if isinstance(schema.get("type"), dict | list):
            yield schema["type"]


def _self_containing(parsed: Any, contained: Callable[[Any], Iterator[Any]]) -> str | None:
    """The name of a type that contains itself."""
    named = named_types(parsed)
    finite: set[str] = set()

    def search(name: str, outer: frozenset[str]) -> str | None:
        if name in outer:
            return name
        if name in finite:
            return None
        for inner in names_within(named[name]):
            recursive = search(inner, outer | {name})
            if recursive is not None:
                return recursive
        finite.add(name)
        return None

    def names_within(schema: Any) -> Iterator[str]:
        for inner in contained(schema):
            name = inner.get("name") if isinstance(inner, dict) else inner
            if isinstance(name, str) and name in named:
                yield name
            else:
                yield from names_within(inner)

    return next(filter(None, (search(name, frozenset()) for name in named)), None)
