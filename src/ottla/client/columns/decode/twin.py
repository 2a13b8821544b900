"""Decodes records to Arrow buffers in Python, for machines without the compiled `_native.c`.

Both decoders give the same bytes in every column and refuse the same inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ottla.records.errors import CorruptRecords
from ottla.records.record import decode_records

__all__ = ["Columns"]

Buffer = bytes | bytearray | memoryview

_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)
_INT32_MAX = (1 << 31) - 1


class Columns:
    """The same as `_native.Columns`."""

    def __init__(self, with_headers: bool = True) -> None:
        self._with_headers = with_headers
        self._reset()

    @property
    def rows(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        return self._size

    def add(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        uses_append_time: bool,
        append_timestamp: int,
        first: int,
        end: int,
    ) -> None:
        if self._size + len(payload) > _INT32_MAX:
            self._reset()
            raise OverflowError("more bytes than one Arrow batch can hold")
        try:
            records = decode_records(payload, count, base_offset=base_offset, base_timestamp=base_timestamp)
        except CorruptRecords as error:
            self._reset()
            raise ValueError(error.message) from None
        for record in records:
            # Deltas of broken writers may overflow; they wrap around, as in Java.
            offset = _wrapped(record.offset)
            if first <= offset < end:
                timestamp = append_timestamp if uses_append_time else _wrapped(record.timestamp)
                self._take(offset, timestamp, uses_append_time, record.key, record.value, record.headers)

    def _take(
        self,
        offset: int,
        timestamp_ms: int,
        uses_append_time: bool,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        self._keys.append(key)
        self._values.append(value)
        self._offsets.append(offset)
        self._timestamps.append(_microseconds(timestamp_ms))
        self._types.append(int(uses_append_time))
        self._size += len(key or b"") + len(value or b"")
        if self._with_headers:
            for name, content in headers:
                encoded = name.encode()
                self._header_keys.append(encoded)
                self._header_values.append(content)
                self._size += len(encoded) + len(content or b"")
            self._header_offsets.append(len(self._header_keys))

    def take(
        self,
        offset: int,
        timestamp_ms: int,
        uses_append_time: bool,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Adds a record of a legacy format, which was decoded elsewhere."""
        self._take(offset, timestamp_ms, uses_append_time, key, value, headers)

    def finish(self) -> tuple[Any, ...]:
        buffers = (
            len(self._offsets),
            _strings(self._keys),
            _strings(self._values),
            np.array(self._offsets, np.int64),
            np.array(self._timestamps, np.int64),
            np.array(self._types, np.int32),
            np.array(self._header_offsets if self._with_headers and self._offsets else [], np.int32),
            _strings(self._header_keys),
            _strings(self._header_values),
        )
        self._reset()
        return buffers

    def _reset(self) -> None:
        self._keys: list[Buffer | None] = []
        self._values: list[Buffer | None] = []
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._types: list[int] = []
        self._header_offsets = [0]
        self._header_keys: list[Buffer | None] = []
        self._header_values: list[Buffer | None] = []
        self._size = 0


def _strings(values: list[Buffer | None]) -> tuple[int, Any, Any, bytes]:
    """(nulls, validity bits, offsets, data) of a column of byte strings."""
    valid = np.fromiter((value is not None for value in values), bool, len(values))
    offsets = np.array(list(accumulate((len(value or b"") for value in values), initial=0)), np.int32)
    bits = np.packbits(valid, bitorder="little")
    return len(values) - int(valid.sum()), bits, offsets, b"".join(value or b"" for value in values)


def _wrapped(value: int) -> int:
    if _INT64_MIN <= value <= _INT64_MAX:
        return value
    return (value - _INT64_MIN & (1 << 64) - 1) + _INT64_MIN


def _microseconds(milliseconds: int) -> int:
    if milliseconds > _INT64_MAX // 1000:
        return _INT64_MAX
    # Rounded towards zero, as in C.
    return _INT64_MIN if milliseconds < -(-_INT64_MIN // 1000) else milliseconds * 1000
