"""Arrays of equally sized elements, decoded with one `unpack`.

An OffsetCommit names hundreds of partitions, and each entry is a few numbers, an empty string and no tagged fields. One
`unpack` reads all entries in a fraction of the time that an object per entry would take. The decoder returns such an
array as a `UniformArray`, which offers its fields as columns and also behaves as a sequence of structures.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, overload

from ottla.wire.message import Structure
from ottla.wire.schema import fields_at

__all__ = ["UNIFORM_COUNT_MAX", "UNIFORM_COUNT_MIN", "UniformArray", "UniformReader"]

# Shorter arrays are decoded as fast element by element; for longer arrays the cached structs would become too large.
UNIFORM_COUNT_MIN = 4
UNIFORM_COUNT_MAX = 512


class UniformArray(Sequence[Any]):
    """A read-only sequence. Elements are created on access."""

    __slots__ = ("_count", "_reader", "_values")

    def __init__(self, reader: UniformReader, values: tuple[Any, ...], count: int) -> None:
        self._reader = reader
        self._values = values
        self._count = count

    @property
    def names(self) -> Container[str]:
        """The names of the fields that have a column: the fixed-size fields of the version."""
        return self._reader.places

    def column(self, name: str) -> tuple[Any, ...]:
        """The values of one field, for all elements."""
        reader = self._reader
        return self._values[reader.places[name] :: reader.width]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._count))]
        width = self._reader.width
        start = range(self._count)[index] * width
        return self._reader.element(self._values[start : start + width])

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(self._count))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, list | UniformArray) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class UniformReader:
    """Reads arrays of one structure in one version: `reader(buffer, position, count)`."""

    __slots__ = ("_codes", "_defaults", "_expected", "_structure", "places", "size", "width")

    def __init__(self, structure: type[Structure], version: int, *, is_flexible: bool) -> None:
        self._structure = structure
        self._defaults: dict[str, Any] = {}
        # The positions of the fixed-size fields in an element, and the expected values at the other positions.
        self.places: dict[str, int] = {}
        self._expected: list[tuple[int, int]] = []
        codes = ""
        for field in fields_at(structure, version):
            assert not field.is_array, "an element with arrays is not of one size"
            if not field.present:
                self._defaults[field.name] = field.default
            elif field.code is not None:
                self.places[field.name] = len(codes)
                codes += field.code
            else:
                assert field.kind == "string"
                self._defaults[field.name] = ""
                # The length of an empty string; in flexible versions the length plus one.
                self._expected.append((len(codes), 1 if is_flexible else 0))
                codes += "B" if is_flexible else "h"
        if is_flexible:
            self._expected.append((len(codes), 0))
            codes += "B"
        self._codes = codes
        self.width = len(codes)
        self.size = Struct(">" + codes).size

    def __call__(self, buffer: memoryview, position: int, count: int) -> UniformArray | None:
        """Returns None if the elements do not all have the same size."""
        if count > UNIFORM_COUNT_MAX or position + count * self.size > len(buffer):
            return None
        values = _struct_of(self._codes, count).unpack_from(buffer, position)
        width = self.width
        for place, value in self._expected:
            if values[place::width].count(value) != count:
                return None
        return UniformArray(self, values, count)

    def element(self, values: Sequence[Any]) -> Structure:
        fields = {name: values[place] for name, place in self.places.items()}
        return self._structure(**self._defaults, **fields)


@lru_cache(maxsize=128)
def _struct_of(codes: str, count: int) -> Struct:
    return Struct(">" + codes * count)
