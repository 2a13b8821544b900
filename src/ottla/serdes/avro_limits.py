"""Limits of Avro values that fastavro's compiled reader does not have.

The depth of types that contain themselves: a few thousand levels overflow the stack and end the process. The items of
arrays whose items take no bytes, such as nulls and empty records: ten bytes can announce more of them than fit into
memory. Everything else is bounded by the length of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ottla.serdes.avro_fields import named_types

__all__ = ["ValueLimits", "endless_record", "value_limits"]

# Levels are records, unions, arrays, maps and the values in them. The compiled reader takes about a kilobyte of the
# stack for a level.
LEVELS_MAX = 2_000
# Items of a value that take no bytes, with the values in them.
EMPTY_ITEMS_MAX = 1_000_000
# A level of a recursive type takes at least a byte, so short values need no check.
_UNCHECKED_BYTES = 1_000
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_BITS = 64


def value_limits(parsed: Any) -> ValueLimits | None:
    """The check of values of a schema that fastavro has parsed; None if the length of a value bounds its content."""
    is_deep = _self_containing(parsed, _contained) is not None
    limits = ValueLimits(parsed)
    return limits if is_deep or limits.has_empty_items else None


def endless_record(parsed: Any) -> str | None:
    """A record that contains itself in every value, so that no value has an end. A level of it takes no bytes."""
    return _self_containing(parsed, _always_contained)


class ValueLimits:
    """Finds the depth of values, and the number of items without bytes, without recursion."""

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed
        self._named = named_types(parsed)
        self._empty_sizes = _EmptySizes(self._named)
        self.has_empty_items = any(map(self._empty_sizes.of, _items(parsed, self._named)))

    def check(self, data: memoryview) -> None:
        """Raises ValueError for too many levels or items, or an exception of a reader if the value is damaged."""
        if len(data) <= _UNCHECKED_BYTES and not self.has_empty_items:
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
            if kind == "array" and (size := self._empty_sizes.of(entry)):
                reader.take_empty(count * size)
                return [(schema, level, 1)] if count else []
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
        self._empty_items = 0

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

    def take_empty(self, count: int) -> None:
        self._empty_items += count
        if self._empty_items > EMPTY_ITEMS_MAX:
            raise ValueError(f"its arrays have more than {EMPTY_ITEMS_MAX} items that take no bytes")


class _EmptySizes:
    """How many values are in a value that takes no bytes; 0 for types whose values take bytes."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._sizes: dict[str, int] = {}

    def of(self, schema: Any) -> int:
        if isinstance(schema, str):
            return self._of_named(schema) if schema in self._named else int(schema == "null")
        if not isinstance(schema, dict):
            return 0
        if schema.get("name") in self._named:
            return self._of_named(schema["name"])
        return self.of(schema["type"]) if isinstance(schema["type"], dict) else int(schema["type"] == "null")

    def _of_named(self, name: str) -> int:
        size = self._sizes.get(name)
        if size is None:
            # A type that contains itself takes bytes.
            self._sizes[name] = 0
            size = self._sizes[name] = self._of_definition(self._named[name])
        return size

    def _of_definition(self, schema: Mapping[str, Any]) -> int:
        if schema["type"] == "fixed":
            return int(schema["size"] == 0)
        if schema["type"] not in ("record", "error"):
            return 0
        sizes = [self.of(field["type"]) for field in schema["fields"]]
        return 1 + sum(sizes) if all(sizes) else 0


def _items(parsed: Any, named: Mapping[str, Any]) -> Iterator[Any]:
    """The types of the items of all arrays in a schema."""
    following = [parsed, *named.values()]
    while following:
        schema = following.pop()
        if isinstance(schema, dict) and schema.get("type") == "array":
            yield schema["items"]
        following.extend(inner for inner in _contained(schema) if not isinstance(inner, str))


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
