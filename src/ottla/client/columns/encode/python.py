"""The encoder in Python, for machines without the compiled one, and the reference for it.

A row becomes a record in the open batch of its partition. The partition is that of the row's column, else murmur2 of
the key, else the sticky partition of keyless records, which changes with every full batch (KIP-480). A batch without
room for the next record is full and is returned.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any, NamedTuple

from ottla.client.producer.partitioner import partition_of_key
from ottla.records.header import HEADER_SIZE
from ottla.records.varint import append_varint

__all__ = ["BytesColumn", "EncodedBatch", "Encoder", "HeadersColumn", "NumbersColumn"]

# Validity bitmap or None, offsets, data or None, first row, whether offsets have eight bytes.
BytesColumn = tuple[Any, Any, Any, int, bool]
# Validity bitmap or None, data, first row.
NumbersColumn = tuple[Any, Any, int]
# The lists' validity, offsets and first row; whether offsets have eight bytes; header keys; header values.
HeadersColumn = tuple[NumbersColumn, bool, BytesColumn, BytesColumn]
# Partition, encoded records, their number, base timestamp, largest timestamp.
EncodedBatch = tuple[int, bytes, int, int, int]

# The largest size of the varints of a record's length, timestamp and offset.
_DELTAS_SIZE_MAX = 20
_WORD = 0xFFFFFFFFFFFFFFFF


class _Open:
    __slots__ = ("base_timestamp", "count", "max_timestamp", "payload")

    def __init__(self) -> None:
        self.payload = bytearray()
        self.count = 0
        self.base_timestamp = 0
        self.max_timestamp = 0


class _Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    timestamp: int


class Encoder:
    """The open batches of one topic."""

    def __init__(self, *, partitions: int, limit: int, available: tuple[int, ...], seed: int) -> None:
        if partitions < 1 or limit < HEADER_SIZE or not available:
            raise ValueError("an encoder needs partitions and room for a batch")
        for partition in available:
            if not 0 <= partition < partitions:
                raise ValueError(f"there is no partition {partition}")
        self._partitions = partitions
        self._limit = limit
        self._available = available
        self._random = seed or 1
        self._open: dict[int, _Open] = {}
        self._full: list[EncodedBatch] = []
        self._sticky = 0
        self._next_sticky()

    def encode(
        self,
        *,
        rows: int,
        key: BytesColumn | None,
        value: BytesColumn | None,
        headers: HeadersColumn | None,
        timestamp: NumbersColumn | None,
        partition: NumbersColumn | None,
        suffix: bytes,
        suffix_count: int,
        now_ms: int,
    ) -> list[EncodedBatch]:
        """Adds rows; returns the batches that became full."""
        keys = _pieces(key, rows)
        values = _pieces(value, rows)
        lists = _lists(headers, rows)
        timestamps = _numbers(timestamp, rows, "q")
        chosen = _numbers(partition, rows, "i")
        for index in range(rows):
            micros, number = timestamps[index], chosen[index]
            if micros is not None and micros < 0:
                raise ValueError(f"the timestamp {micros // 1000} lies before 1970")
            if number is not None and not 0 <= number < self._partitions:
                raise ValueError(f"there is no partition {number}, the topic has {self._partitions}")
            row = _Row(keys[index], values[index], lists[index], now_ms if micros is None else micros // 1000)
            self._append(row, number, suffix, suffix_count)
        return self._take()

    def finish(self) -> list[EncodedBatch]:
        """The remaining open batches."""
        for number in sorted(self._open):
            self._set_aside(number)
        self._next_sticky()
        return self._take()

    def _append(self, row: _Row, number: int | None, suffix: bytes, suffix_count: int) -> None:
        body = _body(row, suffix, suffix_count)
        sticks = number is None and row.key is None
        if number is None:
            number = self._sticky if row.key is None else partition_of_key(row.key, self._partitions)
        if not self._has_room(number, len(body) + 1):
            self._set_aside(number)
            if sticks:
                self._next_sticky()
                number = self._sticky
                if not self._has_room(number, len(body) + 1):
                    self._set_aside(number)
        batch = self._open.setdefault(number, _Open())
        if not batch.count:
            batch.base_timestamp = batch.max_timestamp = row.timestamp
        batch.max_timestamp = max(batch.max_timestamp, row.timestamp)
        deltas = bytearray(b"\0")
        append_varint(deltas, row.timestamp - batch.base_timestamp)
        append_varint(deltas, batch.count)
        append_varint(batch.payload, len(deltas) + len(body))
        batch.payload += deltas
        batch.payload += body
        batch.count += 1

    def _has_room(self, number: int, size: int) -> bool:
        batch = self._open.get(number)
        return batch is None or HEADER_SIZE + len(batch.payload) + size + _DELTAS_SIZE_MAX <= self._limit

    def _set_aside(self, number: int) -> None:
        batch = self._open.pop(number)
        self._full.append((number, bytes(batch.payload), batch.count, batch.base_timestamp, batch.max_timestamp))

    def _take(self) -> list[EncodedBatch]:
        taken, self._full = self._full, []
        return taken

    def _next_sticky(self) -> None:
        # Xorshift, as in the compiled encoder, so that both choose the same partitions.
        state = self._random
        state ^= state << 13 & _WORD
        state ^= state >> 7
        state ^= state << 17 & _WORD
        self._random = state
        self._sticky = self._available[state % len(self._available)]


def _body(row: _Row, suffix: bytes, suffix_count: int) -> bytearray:
    """A record without length, attributes and deltas."""
    body = bytearray()
    _put(body, row.key)
    _put(body, row.value)
    append_varint(body, len(row.headers) + suffix_count)
    for name, content in row.headers:
        _put(body, name)
        _put(body, content)
    body += suffix
    return body


def _put(target: bytearray, content: bytes | None) -> None:
    append_varint(target, -1 if content is None else len(content))
    target += content or b""


def _is_valid(validity: Any, index: int) -> bool:
    return validity is None or bool(memoryview(validity)[index >> 3] >> (index & 7) & 1)


def _pieces(column: BytesColumn | None, rows: int) -> list[bytes | None]:
    if column is None or not rows:
        return [None] * rows
    validity, offsets, data, start, large = column
    bounds = struct.unpack_from(f"<{rows + 1}{'q' if large else 'i'}", offsets, start * (8 if large else 4))
    if bounds[0] < 0 or any(after < before for before, after in itertools.pairwise(bounds)):
        raise ValueError("offsets of a column go backwards")
    content = memoryview(b"" if data is None else data)
    if bounds[-1] > len(content):
        raise ValueError(f"a data buffer has {len(content)} bytes, {bounds[-1]} are needed")
    return [
        bytes(content[bounds[index] : bounds[index + 1]]) if _is_valid(validity, start + index) else None
        for index in range(rows)
    ]


def _numbers(column: NumbersColumn | None, rows: int, code: str) -> list[int | None]:
    if column is None or not rows:
        return [None] * rows
    validity, data, start = column
    numbers = struct.unpack_from(f"<{rows}{code}", data, start * struct.calcsize(f"<{code}"))
    return [number if _is_valid(validity, start + index) else None for index, number in enumerate(numbers)]


def _lists(column: HeadersColumn | None, rows: int) -> list[list[tuple[bytes, bytes | None]]]:
    if column is None or not rows:
        return [[] for _ in range(rows)]
    (validity, offsets, start), large, keys, values = column
    bounds = struct.unpack_from(f"<{rows + 1}{'q' if large else 'i'}", offsets, start * (8 if large else 4))
    if bounds[0] < 0 or any(after < before for before, after in itertools.pairwise(bounds)):
        raise ValueError("offsets of the headers go backwards")
    names, contents = _pieces(keys, bounds[-1]), _pieces(values, bounds[-1])
    lists: list[list[tuple[bytes, bytes | None]]] = []
    for row in range(rows):
        row_headers: list[tuple[bytes, bytes | None]] = []
        if _is_valid(validity, start + row):
            for index in range(bounds[row], bounds[row + 1]):
                name = names[index]
                if name is None:
                    raise ValueError(f"the header key of row {row} is null")
                row_headers.append((name, contents[index]))
        lists.append(row_headers)
    return lists
