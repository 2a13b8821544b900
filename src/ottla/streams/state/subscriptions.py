"""The store of foreign-key joins: which rows of the left table refer to a row of the right table."""

from __future__ import annotations

import struct

from ottla.streams.state.mapped import MappedStore
from ottla.streams.state.store import RowForm

__all__ = ["SubscriptionStore"]

_INT = struct.Struct(">i")


class SubscriptionStore(MappedStore):
    """Subscriptions with timestamps by (foreign key, primary key), both as bytes.

    A key is the length of the foreign key (4 bytes), the foreign key and the primary key.
    """

    row_form = RowForm.DATED

    def put(self, foreign: bytes, primary: bytes, subscription: bytes, timestamp: int) -> None:
        place = _prefix(foreign) + primary
        self._map.put(place, (subscription, timestamp))
        self._log(place, subscription, timestamp)

    def delete(self, foreign: bytes, primary: bytes) -> None:
        place = _prefix(foreign) + primary
        self._map.delete(place)
        self._log(place, None)

    def subscribers(self, foreign: bytes) -> list[tuple[bytes, bytes, int]]:
        """(primary key, subscription, timestamp) of all rows that refer to a foreign key."""
        prefix = _prefix(foreign)
        return [(place[len(prefix) :], content, time) for place, (content, time) in self._map.prefix(prefix)]

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        if value is None:
            self._map.delete(key)
        else:
            self._map.put(key, (value, timestamp))


def _prefix(foreign: bytes) -> bytes:
    return _INT.pack(len(foreign)) + foreign
