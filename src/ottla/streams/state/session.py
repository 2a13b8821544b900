"""Session stores: aggregates by key and session, kept for a retention time after the end of the session."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.streams.record import Window, Windowed
from ottla.streams.state.segmented import SegmentedStore
from ottla.streams.state.store import RowForm

__all__ = ["SessionStore"]

_SUFFIX = struct.Struct(">qq")
_FOREVER = 1 << 62
# Segments of a store in its retention time. The sessions of a key may be in all of them.
_SEGMENTS = 8


class SessionStore(SegmentedStore):
    """The changelog key is the key, the end and the start of the session (8 bytes each)."""

    row_form = RowForm.VALUE
    suffix = _SUFFIX

    @property
    def segment_ms(self) -> int:
        return -(-self._retention // _SEGMENTS)

    def put(self, session: Windowed, aggregate: Any) -> None:
        key, window = self._encode_key(session.key), session.window
        content = self._encode(aggregate)
        self._write(key, content, window.end, window.start)
        self._log(key + _SUFFIX.pack(window.end, window.start), content)

    def remove(self, session: Windowed) -> None:
        self.put(session, None)

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        return self._decode(self._get(self._encode_key(key), end, start))

    def cache_place(self, session: Windowed) -> tuple[bytes, int]:
        """The place of a row in the record cache, and its bytes; they are negative if there is no row."""
        encoded, window = self._encode_key(session.key), session.window
        content = self._get(encoded, window.end, window.start)
        place = bytes(8) + encoded + _SUFFIX.pack(window.end, window.start)
        return place, -1 if content is None else len(content)

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed, Any]]:
        """The sessions of a key that end at or after a time and begin at or before another, by their ends."""
        earliest_end = max(earliest_end, self._observed - self._retention + 1)
        rows = self._rows.of_key(self._encode_key(key), earliest_end, _FOREVER)
        return iter(
            [
                (Windowed(key, Window(start, end)), self._decode(content))
                for (end, start), content in rows
                if start <= latest_start
            ]
        )

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[tuple[Windowed, Any]]:
        """The sessions of all keys that end between two times, both included, by end, start and key."""
        for rows in self._rows.scan(max(earliest_end, self._limit() + 1), latest_end):
            rows.sort(key=lambda row: (row[1], row[0]))
            for key, (end, start), content in rows:
                yield Windowed(self._decode_key(key), Window(start, end)), self._decode(content)

    def fetch(self, key: Any) -> Iterator[tuple[Windowed, Any]]:
        """All sessions of a key."""
        return self.find_sessions(key, 0, _FOREVER)

    def raw_sessions(self, key: bytes, earliest_end: int = 0) -> dict[tuple[int, int], bytes]:
        """The bytes of the sessions of a key by (end, start), for those that end at or after a time."""
        return dict(self._rows.of_key(key, max(earliest_end, self._limit() + 1), _FOREVER))

    def raw_put_many(
        self,
        places: Sequence[tuple[bytes, tuple[int, int]]],
        contents: Sequence[bytes | None],
        timestamps: Sequence[int],
    ) -> None:
        """Writes sessions of a batch, by key and (end, start); None removes a session."""
        keys = []
        for (key, (end, start)), content in zip(places, contents, strict=True):
            self._write(key, content, end, start)
            keys.append(key + _SUFFIX.pack(end, start))
        self._log_many(keys, contents, timestamps)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        end, start = _SUFFIX.unpack(key[-16:])
        self._write(key[:-16], value, end, start)

    def _get(self, key: bytes, end: int, start: int) -> Any:
        return self._rows.get(key, (end, start)) if end > self._limit() else None

    def _write(self, key: bytes, content: bytes | None, end: int, start: int) -> None:
        if end > self._observed:
            self._observed = end
            self._expire()
        elif end <= self._observed - self._retention:
            return
        if content is None:
            self._rows.delete(key, (end, start))
        else:
            self._rows.put(key, (end, start), content)
