"""Buffers in the order of time: of suppressed table updates, and of stream records that wait for a versioned table."""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ottla.streams.record import NO_TIMESTAMP, Change, Headers, Record, RecordMetadata
from ottla.streams.state.store import Store

__all__ = ["JoinBuffer", "SuppressBuffer"]

_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_NULL = _INT.pack(-1)
_SAME_AS_PRIOR = _INT.pack(-2)
_VERSION: Headers = (("v", b"\x03"),)


class _Buffered(NamedTuple):
    """The bytes of a buffered update, and where its record came from."""

    prior: bytes | None
    old: bytes | None
    new: bytes | None
    timestamp: int
    metadata: RecordMetadata | None
    headers: Headers

    def encode(self) -> bytes:
        topic = (self.metadata.topic if self.metadata else "").encode()
        offset, partition = (self.metadata.offset, self.metadata.partition) if self.metadata else (-1, -1)
        parts = [_LONG.pack(self.timestamp), _LONG.pack(offset), _sized(topic), _INT.pack(partition)]
        parts.append(_INT.pack(len(self.headers)))
        for name, content in self.headers:
            parts += [_sized(name.encode()), _sized(content)]
        parts.append(_sized(self.prior))
        parts.append(_SAME_AS_PRIOR if self.old == self.prior and self.old is not None else _sized(self.old))
        parts.append(_sized(self.new))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> tuple[_Buffered, int]:
        """The update and the number of bytes that it took."""
        timestamp, offset = struct.unpack_from(">qq", data)
        topic, place = _read_sized(data, 16)
        partition, count = struct.unpack_from(">ii", data, place)
        place += 8
        headers = []
        for _ in range(count):
            name, place = _read_sized(data, place)
            content, place = _read_sized(data, place)
            headers.append(((name or b"").decode(), content))
        prior, place = _read_sized(data, place)
        if data[place : place + 4] == _SAME_AS_PRIOR:
            old, place = prior, place + 4
        else:
            old, place = _read_sized(data, place)
        new, place = _read_sized(data, place)
        metadata = RecordMetadata((topic or b"").decode(), partition, offset) if offset >= 0 else None
        return cls(prior, old, new, timestamp, metadata, tuple(headers)), place


class SuppressBuffer(Store):
    """The last update of every key, in the order of the time at which the key was first buffered."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._times: dict[bytes, int] = {}
        # A heap, because a sorted list moves all later entries with each eviction. Entries whose key has no update, or
        # another time, are dropped when they are the first.
        self._order: list[tuple[int, bytes]] = []
        self._updates: dict[bytes, _Buffered] = {}
        self._dirty: dict[bytes, None] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._updates)

    @property
    def first_time(self) -> int | None:
        return self._order[0][0] if self._order else None

    def put(self, time: int, record: Record) -> None:
        key = self._encode_key(record.key)
        new, old = self._encode(record.value.new), self._encode(record.value.old)
        before = self._updates.get(key)
        prior = old if before is None else before.prior
        self._write(key, time, _Buffered(prior, old, new, record.timestamp, self._owner.metadata, record.headers))
        self._dirty[key] = None

    def evict_while(self, condition: Callable[[], bool], emit: Callable[[Record, RecordMetadata | None], None]) -> None:
        """Removes updates. `emit` gets each of them, and where its record came from."""
        while self._order and condition():
            key = self._order[0][1]
            update = self._remove(key)
            self._dirty[key] = None
            emit(
                Record(
                    self._decode_key(key),
                    Change(self._decode(update.new), self._decode(update.old)),
                    update.timestamp,
                    update.headers,
                ),
                update.metadata,
            )

    def prior(self, key: Any) -> tuple[bool, Any]:
        """Whether a key is buffered, and the value that later operators got last."""
        update = self._updates.get(self._encode_key(key))
        return (False, None) if update is None else (True, self._decode(update.prior))

    def flush(self) -> None:
        for key in self._dirty:
            if not self._is_logged and self._journal is None:
                continue
            update = self._updates.get(key)
            content = None if update is None else update.encode() + _LONG.pack(self._times[key])
            if self._journal is not None:
                self._journal[key] = (content, NO_TIMESTAMP)
            if self._is_logged:
                self._owner.log(self.name, key, content, NO_TIMESTAMP, () if content is None else _VERSION)
        self._dirty.clear()

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        if value is None:
            if key in self._updates:
                self._remove(key)
            return
        update, place = _Buffered.decode(value)
        (time,) = _LONG.unpack_from(value, place)
        if self._times.get(key, time) != time:
            self._remove(key)
        self._write(key, time, update)

    def _write(self, key: bytes, time: int, update: _Buffered) -> None:
        before = self._updates.get(key)
        if before is None:
            self._times[key] = time
            heapq.heappush(self._order, (time, key))
        else:
            self.size_bytes -= _resident_bytes(key, before)
        self._updates[key] = update
        self.size_bytes += _resident_bytes(key, update)

    def _remove(self, key: bytes) -> _Buffered:
        update = self._updates.pop(key)
        del self._times[key]
        while self._order and self._times.get(self._order[0][1]) != self._order[0][0]:
            heapq.heappop(self._order)
        self.size_bytes -= _resident_bytes(key, update)
        return update


class JoinBuffer(Store):
    """Records of a stream that wait until stream time has passed them by the grace period of a join (KIP-923)."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Time, key and sequence number give the order.
        self._records: list[tuple[int, bytes, int, _Buffered]] = []
        self._sequence = 0
        self._observed = NO_TIMESTAMP

    def put(self, record: Record) -> bool:
        """False if the record is later than the grace period: it is not buffered."""
        if self._observed - self.specification.retention_ms > record.timestamp:
            return False
        self._observed = max(self._observed, record.timestamp)
        self._sequence = (self._sequence + 1) & 0x7FFFFFFF
        key = self._encode_key(record.key)
        update = _Buffered(
            None, None, self._encode(record.value), record.timestamp, self._owner.metadata, record.headers
        )
        insort(self._records, (record.timestamp, key, self._sequence, update))
        place = self._place(record.timestamp, key, self._sequence)
        self._log(place, update.encode() + _LONG.pack(0), NO_TIMESTAMP)
        return True

    def evict(self) -> Iterator[tuple[Record, RecordMetadata | None]]:
        """Removes and returns the records whose grace period has passed, in the order of time, and their origins."""
        limit = self._observed - self.specification.retention_ms
        while self._records and self._records[0][0] <= limit:
            timestamp, key, sequence, update = self._records.pop(0)
            self._log(self._place(timestamp, key, sequence), None, NO_TIMESTAMP)
            record = Record(self._decode_key(key), self._decode(update.new), timestamp, update.headers)
            yield record, update.metadata

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        (time,), (sequence,) = _LONG.unpack(key[1:9]), _INT.unpack(key[-4:])
        self._observed = max(self._observed, time)
        self._sequence = max(self._sequence, sequence)
        place = (time, key[9:-4], sequence)
        index = bisect_left(self._records, place)
        if index < len(self._records) and self._records[index][:3] == place:
            del self._records[index]
        if value is not None:
            self._records.insert(index, (*place, _Buffered.decode(value)[0]))

    def _place(self, timestamp: int, key: bytes, sequence: int) -> bytes:
        return b"\x00" + _LONG.pack(timestamp) + key + _INT.pack(sequence)


def _resident_bytes(key: bytes, update: _Buffered) -> int:
    """The estimate of Kafka Streams, because buffer limits in bytes are part of what users configure."""
    size = len(key) + 8 + len(update.prior or b"") + len(update.new or b"")
    # An old value that is equal to the prior value is kept once.
    if update.old is not None and update.old != update.prior:
        size += len(update.old)
    size += 8 + 8 + 4
    if update.metadata is not None:
        size += len(update.metadata.topic)
    for name, header in update.headers:
        size += len(name) + len(header or b"")
    return size


def _sized(content: bytes | None) -> bytes:
    return _NULL if content is None else _INT.pack(len(content)) + content


def _read_sized(data: bytes, place: int) -> tuple[bytes | None, int]:
    (length,) = _INT.unpack_from(data, place)
    place += 4
    return (None, place) if length < 0 else (data[place : place + length], place + length)
