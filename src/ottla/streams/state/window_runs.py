"""Runs: rows that a batch has appended to a window store, in columns. Most runs expire before a record needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Run", "fixed_bytes", "joined_key"]

_EMPTY = pa.scalar(b"", pa.binary())


class Run:
    """Keys and contents are Arrow arrays of bytes; starts and sequence numbers are arrays of numbers."""

    __slots__ = ("_contents", "_keys", "_sequences", "_starts", "first", "last")

    def __init__(self, keys: Any, starts: Any, sequences: Any, contents: Any) -> None:
        self._keys = keys
        self._starts = starts
        self._sequences = sequences
        self._contents = contents
        # The range of starts; empty runs are before everything.
        self.first = int(starts.min()) if len(starts) else -1
        self.last = int(starts.max()) if len(starts) else -1

    def __len__(self) -> int:
        return len(self._starts)

    def filtered(self, mask: Any) -> Run:
        if mask.all():
            return self
        chosen = pa.array(mask)
        return Run(self._keys.filter(chosen), self._starts[mask], self._sequences[mask], self._contents.filter(chosen))

    def take_between(self, first: int, last: int, put: Callable[[bytes, tuple[int, int], Any], None]) -> Run | None:
        """Puts the rows between two times, and returns the other rows."""
        mask = (self._starts >= first) & (self._starts <= last)
        taken = self.filtered(mask)
        for key, start, sequence, content in zip(
            _values(taken._keys),
            taken._starts.tolist(),
            taken._sequences.tolist(),
            _values(taken._contents),
            strict=True,
        ):
            put(key, (start, sequence), content)
        return None if mask.all() else self.filtered(~mask)


def joined_key(keys: Any, starts: Any, sequences: Any) -> Any:
    """The changelog keys of rows: key, start and sequence number."""
    suffixes: Any = np.empty(len(starts), [("start", ">i8"), ("sequence", ">i4")])
    suffixes["start"] = starts
    suffixes["sequence"] = sequences
    return pc.binary_join_element_wise(keys, fixed_bytes(suffixes.tobytes(), 12), _EMPTY)


def fixed_bytes(content: bytes, size: int) -> Any:
    """Pieces of the same size as an array of bytes."""
    count = len(content) // size
    offsets: Any = np.arange(0, len(content) + 1, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def _values(array: Any) -> list[Any]:
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return values
