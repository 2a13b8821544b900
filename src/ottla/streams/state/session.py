"""Session stores: aggregates by key and session, kept for a retention time after the end of the session."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.streams.record import NO_TIMESTAMP, Window, Windowed
from ottla.streams.state.store import Store

__all__ = ["SessionStore"]

_SUFFIX = struct.Struct(">qq")
_LONG = struct.Struct(">q")


class SessionStore(Store):
    """The changelog key is the key, the end and the start of the session (8 bytes each)."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # key -> {(end, start): aggregate}; and all sessions in the order of their ends.
        self._sessions: dict[bytes, dict[tuple[int, int], bytes]] = {}
        self._ends: list[tuple[int, int, bytes]] = []
        self._observed = NO_TIMESTAMP
        # Sessions that end from this time on are kept although their retention is over; None: all may expire.
        self._kept_from: int | None = None

    def keep_from(self, end: int) -> None:
        """Sessions that were not emitted yet must not expire."""
        self._kept_from = end

    def put(self, session: Windowed, aggregate: Any) -> None:
        key, window = self._encode_key(session.key), session.window
        content = self._encode(aggregate)
        self._write(key, content, window.end, window.start)
        self._log(key + _SUFFIX.pack(window.end, window.start), content)

    def remove(self, session: Windowed) -> None:
        self.put(session, None)

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        self._expire()
        found = self._sessions.get(self._encode_key(key))
        return None if found is None else self._decode(found.get((end, start)))

    def cache_place(self, session: Windowed) -> tuple[bytes, int]:
        """The place of a row in the record cache, and its bytes; they are negative if there is no row."""
        encoded, window = self._encode_key(session.key), session.window
        content = self._sessions.get(encoded, {}).get((window.end, window.start))
        place = bytes(8) + encoded + _SUFFIX.pack(window.end, window.start)
        return place, -1 if content is None else len(content)

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed, Any]]:
        """The sessions of a key that end at or after a time and begin at or before another, by their ends."""
        self._expire()
        found = self._sessions.get(self._encode_key(key), {})
        earliest_end = max(earliest_end, self._observed - self.specification.retention_ms + 1)
        return iter(
            [
                (Windowed(key, Window(start, end)), self._decode(content))
                for (end, start), content in sorted(found.items())
                if end >= earliest_end and start <= latest_start
            ]
        )

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[tuple[Windowed, Any]]:
        """The sessions of all keys that end between two times, both included, by end, start and key."""
        self._expire()
        return iter(
            [
                (Windowed(self._decode_key(key), Window(start, end)), self._decode(self._sessions[key][(end, start)]))
                for end, start, key in self._ends
                if earliest_end <= end <= latest_end
            ]
        )

    def fetch(self, key: Any) -> Iterator[tuple[Windowed, Any]]:
        """All sessions of a key."""
        return self.find_sessions(key, 0, 1 << 62)

    def raw_sessions(self, key: bytes) -> dict[tuple[int, int], bytes]:
        """The bytes of the sessions of a key by (end, start)."""
        self._expire()
        return self._sessions.get(key, {})

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

    def _table_key(self, key: bytes) -> bytes:
        return key[-16:] + key[:-16]

    def _changelog_key(self, key: bytes) -> bytes:
        return key[16:] + key[:16]

    def _expired_before(self) -> bytes | None:
        limit = self._limit()
        return None if limit < 0 else _LONG.pack(limit + 1)

    def _limit(self) -> int:
        """Sessions that end at this time or earlier have expired."""
        limit = self._observed - self.specification.retention_ms
        return limit if self._kept_from is None else min(limit, self._kept_from - 1)

    def _write(self, key: bytes, content: bytes | None, end: int, start: int) -> None:
        if end > self._observed:
            self._observed = end
            self._expire()
        elif end <= self._observed - self.specification.retention_ms:
            return
        place = (end, start)
        sessions = self._sessions.get(key)
        if content is None:
            if sessions is not None and sessions.pop(place, None) is not None:
                del self._ends[bisect_left(self._ends, (end, start, key))]
                if not sessions:
                    del self._sessions[key]
            return
        if sessions is None:
            sessions = self._sessions[key] = {}
        if place not in sessions:
            insort(self._ends, (end, start, key))
        sessions[place] = content

    def _expire(self) -> None:
        limit, expired = self._limit(), 0
        for end, start, key in self._ends:
            if end > limit:
                break
            expired += 1
            del self._sessions[key][(end, start)]
            if not self._sessions[key]:
                del self._sessions[key]
        del self._ends[:expired]
