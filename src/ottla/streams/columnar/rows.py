"""Rows in columns: what steps of a column form exchange. A column is an Arrow array, a list, or both."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.streams.record import Window, Windowed

__all__ = ["Column", "Numbers", "Rows", "WindowedColumn", "concatenated"]


class Mask:
    """The rows to keep, in the forms that lists, numbers and Arrow arrays need."""

    __slots__ = ("_array", "_bools", "flags")

    def __init__(self, keeps: Any) -> None:
        """`keeps` is a list of bool, or an array."""
        self._bools: list[bool] | None = None
        self._array: pa.Array | None = None
        if isinstance(keeps, list):
            self._bools = keeps
            # Numpy reads a list six times more slowly.
            self.flags: Any = np.frombuffer(bytes(keeps), np.bool_)
        else:
            self.flags = np.asarray(keeps, np.bool_)

    @property
    def bools(self) -> list[bool]:
        if self._bools is None:
            self._bools = self.flags.tolist()
        return self._bools

    @property
    def array(self) -> pa.Array:
        if self._array is None:
            self._array = pa.array(self.flags)
        return self._array


class Column:
    """Values of rows. A missing form is made on first use."""

    __slots__ = ("_array", "_values")

    def __init__(self, values: list[Any] | None = None, *, array: pa.Array | None = None) -> None:
        self._values = values
        self._array = array

    def __len__(self) -> int:
        if self._values is None:
            return 0 if self._array is None else len(self._array)
        return len(self._values)

    @property
    def values(self) -> list[Any]:
        if self._values is None:
            assert self._array is not None
            kind, has_nulls = self._array.type, self._array.null_count > 0
            if _is_text(kind) or (not has_nulls and _is_number(kind)):
                # Much faster than `to_pylist`, which makes a scalar of every value.
                self._values = self._array.to_numpy(zero_copy_only=False).tolist()
            else:
                # Numpy would make floats of numbers with nulls, arrays of lists, and times without their zone.
                self._values = self._array.to_pylist()
        return self._values

    @property
    def array(self) -> pa.Array:
        """For column functions, and for sinks."""
        if self._array is None:
            self._array = pa.array(self._values)
        return self._array

    @property
    def known_array(self) -> pa.Array | None:
        """The Arrow array, unless it would have to be made first."""
        return self._array

    def compressed(self, mask: Mask) -> Column:
        """Keeps the forms that are known: an array is cheap to filter, and expensive to make."""
        return Column(
            None if self._values is None else list(compress(self._values, mask.bools)),
            array=None if self._array is None else self._array.filter(mask.array),
        )

    def taken(self, places: Any) -> Column:
        """The values at these places, which may repeat: a list or an array of numbers."""
        if self._values is None:
            assert self._array is not None
            return Column(array=self._array.take(pa.array(places, pa.int64())))
        values = self._values
        return Column([values[place] for place in (places if isinstance(places, list) else places.tolist())])

    def sliced(self, first: int, end: int) -> Column:
        if self._values is None:
            assert self._array is not None
            return Column(array=self._array.slice(first, end - first))
        return Column(self._values[first:end])


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def concatenated(first: Column, second: Column) -> Column:
    """The rows of two columns. Arrow arrays stay arrays."""
    first_array, second_array = first.known_array, second.known_array
    if first_array is not None and second_array is not None and first_array.type == second_array.type:
        return Column(array=pa.concat_arrays([first_array, second_array]))
    return Column(first.values + second.values)


class Numbers(Column):
    """Whole numbers, never None: timestamps, counts."""

    __slots__ = ("_numbers",)

    def __init__(self, values: list[int] | None = None, *, numbers: Any = None) -> None:
        super().__init__(values)
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers if self._values is None else self._values)

    @property
    def values(self) -> list[Any]:
        if self._values is None:
            self._values = self._numbers.tolist()
        return self._values

    @property
    def numbers(self) -> Any:
        if self._numbers is None:
            self._numbers = np.array(self._values, np.int64)
        return self._numbers

    @property
    def array(self) -> pa.Array:
        return pa.array(self.numbers)

    def compressed(self, mask: Mask) -> Numbers:
        if self._numbers is not None:
            return Numbers(numbers=self._numbers[mask.flags])
        return Numbers(list(compress(self.values, mask.bools)))

    def taken(self, places: Any) -> Numbers:
        return Numbers(numbers=self.numbers[places])

    def sliced(self, first: int, end: int) -> Numbers:
        return Numbers(
            None if self._values is None else self._values[first:end],
            numbers=None if self._numbers is None else self._numbers[first:end],
        )


class WindowedColumn(Column):
    """Windowed keys. Objects are created only if a function needs them.

    `groups` are numbers of rows: rows of the same number have the same key and window, and share an object.
    """

    __slots__ = ("_groups", "ends", "keys", "starts")

    def __init__(self, keys: list[Any], starts: list[int], ends: list[int], *, groups: list[int] | None = None) -> None:
        super().__init__()
        self.keys = keys
        self.starts = starts
        self.ends = ends
        self._groups = groups

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def values(self) -> list[Any]:
        if self._values is None:
            rows = zip(self.keys, self.starts, self.ends, strict=True)
            windows: dict[tuple[int, int], Window] = {}
            if self._groups is None:
                self._values = [_windowed(windows, *row) for row in rows]
            else:
                known = dict(zip(self._groups, rows, strict=True))
                shared = {group: _windowed(windows, *row) for group, row in known.items()}
                self._values = list(map(shared.__getitem__, self._groups))
        return self._values

    @property
    def array(self) -> pa.Array:
        raise TypeError("windowed keys have no Arrow form")

    def compressed(self, mask: Mask) -> WindowedColumn:
        bools = mask.bools
        return WindowedColumn(
            list(compress(self.keys, bools)), list(compress(self.starts, bools)), list(compress(self.ends, bools))
        )

    def taken(self, places: Any) -> Column:
        return Column([self.values[place] for place in places])

    def sliced(self, first: int, end: int) -> WindowedColumn:
        return WindowedColumn(self.keys[first:end], self.starts[first:end], self.ends[first:end])


def _windowed(windows: dict[tuple[int, int], Window], key: Any, start: int, end: int) -> Windowed:
    window = windows.get((start, end))
    if window is None:
        window = windows[start, end] = Window(start, end)
    return Windowed(key, window)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one node. Tables have their new values, None for deletions."""

    key: Column
    value: Column
    # Milliseconds.
    time: Numbers
    # None if no row has headers.
    headers: list[Any] | None = None
    # The place of each row among the rows of all sources; None if there is one source.
    order: list[int] | None = None

    def __len__(self) -> int:
        return len(self.time)

    def compressed(self, keeps: Any) -> Rows:
        """The rows whose flag is true; `keeps` is a list of bool, or an array."""
        mask = Mask(keeps)
        return Rows(
            self.key.compressed(mask),
            self.value.compressed(mask),
            self.time.compressed(mask),
            None if self.headers is None else list(compress(self.headers, mask.bools)),
            None if self.order is None else list(compress(self.order, mask.bools)),
        )

    def taken(self, places: list[int]) -> Rows:
        """The rows at these places, which may repeat."""
        return Rows(
            self.key.taken(places),
            self.value.taken(places),
            self.time.taken(places),
            None if self.headers is None else [self.headers[place] for place in places],
            None if self.order is None else [self.order[place] for place in places],
        )

    def sliced(self, first: int, end: int) -> Rows:
        return Rows(
            self.key.sliced(first, end),
            self.value.sliced(first, end),
            self.time.sliced(first, end),
            None if self.headers is None else self.headers[first:end],
            None if self.order is None else self.order[first:end],
        )
