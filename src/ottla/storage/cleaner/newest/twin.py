"""The same as `_native.c` with a dictionary: the newest offset of every key.

Long keys are replaced by a digest of 31 bytes. Short keys are stored as they are, and cannot be confused with a digest,
because they are shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.records.inspection import record_spans

__all__ = ["ENTRY_BYTES", "NewestOffsets"]

ENTRY_BYTES = 200
"""The bytes of one key in a Python dictionary: its share of the table, the key and the offset.

Measured with CPython 3.11 and keys of 8 and 16 bytes: 127 to 143 bytes with a full table, 156 to 173 right after the
table has grown. The rest is for the moment when the old and the new table both exist.
"""

_SECRET_BYTES = 16
# An object of 31 bytes takes as much memory as one of 16, since Python rounds sizes up. A digest takes a microsecond.
_DIGEST_BYTES = 31
_BASE_OFFSET_MAX = (1 << 63) - (1 << 31) - 1


class NewestOffsets:
    __slots__ = ("_digest", "_keys_max", "_offsets")

    def __init__(self, keys_max: int, secret: bytes, /) -> None:
        if keys_max < 1 or len(secret) != _SECRET_BYTES:
            raise ValueError("a table needs room for a key, and a secret of 16 bytes")
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        self._digest = _digest_with(secret)

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes | memoryview, offset: int, /) -> None:
        short = self._short(bytes(key))
        if offset < 0 or (len(self._offsets) >= self._keys_max and short not in self._offsets):
            raise ValueError("the table is full, or the offset is negative")
        self._offsets[short] = offset

    def get(self, key: bytes | memoryview, /) -> int:
        return self._offsets.get(self._short(bytes(key)), -1)

    def put_records(
        self, payload: bytes | bytearray | memoryview, count: int, base_offset: int, start: int, /
    ) -> bool | None:
        """Adds the keys of the records at or above `start`, or none of them if they may not all fit.

        None if a record is unusual.
        """
        spans = _spans(payload, count, base_offset)
        if spans is None:
            return None
        data = bytes(payload)
        offsets, room = self._offsets, self._keys_max - len(self._offsets)
        keyed = [
            (self._short(data[key_start : key_start + key_length]), base_offset + offset_delta)
            for _, _, _, offset_delta, _, key_start, key_length, _ in spans
            if key_length >= 0 and base_offset + offset_delta >= start
        ]
        if count > room and sum(key not in offsets for key, _ in keyed) > room:
            return False
        offsets.update(keyed)
        return True

    def keep_records(
        self,
        payload: bytes | bytearray | memoryview,
        count: int,
        base_offset: int,
        latest_offset: int,
        keeps_tombstones: bool,
        /,
    ) -> tuple[int, int, int, int, bytes] | None:
        """The records that stay: those behind the map, and the newest of each key.

        Returns how many stay, how many had no key, how many tombstones stay, the largest timestamp delta of those that
        stay, and their bytes, which are empty if all stay. None if a record is unusual.
        """
        spans = _spans(payload, count, base_offset)
        if spans is None:
            return None
        data = bytes(payload)
        kept = []
        keyless = 0
        for span in spans:
            _, _, _, offset_delta, _, key_start, key_length, value_length = span
            offset = base_offset + offset_delta
            if offset > latest_offset:
                kept.append(span)
            elif key_length < 0:
                keyless += 1
            elif (value_length >= 0 or keeps_tombstones) and offset >= self.get(
                data[key_start : key_start + key_length]
            ):
                kept.append(span)
        return (
            len(kept),
            keyless,
            sum(span[7] < 0 for span in kept),
            max((span[2] for span in kept), default=0),
            b"" if len(kept) == len(spans) else b"".join(_bytes_of(data, kept)),
        )

    def _short(self, key: bytes) -> bytes:
        return key if len(key) < _DIGEST_BYTES else self._digest(key)


_Span = tuple[int, int, int, int, int, int, int, int]


def _spans(payload: bytes | bytearray | memoryview, count: int, base_offset: int) -> list[_Span] | None:
    if not 0 <= base_offset <= _BASE_OFFSET_MAX:
        return None
    spans = record_spans(payload, count)
    return None if spans is None or any(span[3] < 0 for span in spans) else spans


def _bytes_of(data: bytes, spans: list[_Span]) -> Iterator[bytes]:
    for start, end, *_ in spans:
        yield data[start:end]


def _digest_with(secret: bytes) -> Callable[[bytes], bytes]:
    # Imported on first use, because hashing libraries are large and most nodes do not compact for a long time.
    from hashlib import blake2b

    def digest(key: bytes) -> bytes:
        return blake2b(key, digest_size=_DIGEST_BYTES, key=secret).digest()

    return digest
