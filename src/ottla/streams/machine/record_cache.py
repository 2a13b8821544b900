"""The record cache: holds updates of tables back until a commit, or until it is full, so that fewer are forwarded.

The sizes of entries, the order of evictions and the order of a flush are those of Kafka Streams, because they decide
what is forwarded. Stores have every update at once; the cache only delays their forwarding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.streams.record import Change, Record

if TYPE_CHECKING:
    from ottla.streams.machine.processor import ProcessorContext
    from ottla.streams.machine.task import StreamTask

__all__ = ["CacheBudget", "UpdateCache"]

# The bytes of an entry beside its key, its value, and the topic and the headers of its record.
_NODE_BYTES = 24
_ENTRY_BYTES = 1 + 8 + 8 + 4


class CacheBudget:
    """The bytes of all caches of a worker."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0


class _Update(NamedTuple):
    """The record to forward when the entry leaves the cache, and where it came from."""

    record: Record
    context: ProcessorContext
    sends_old: bool
    place: Any
    timestamp: int


class _Entry:
    __slots__ = ("before", "is_dirty", "size", "update")

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_dirty = False
        # The row that later operators got last.
        self.before: Any = None
        self.update: _Update | None = None


class UpdateCache:
    """The updates of one store that were not forwarded yet."""

    def __init__(self, budget: CacheBudget, task: StreamTask) -> None:
        self._budget = budget
        self._task = task
        # In the order of use, the oldest first.
        self._entries: dict[bytes, _Entry] = {}
        # In the order of the last update.
        self._dirty: dict[bytes, None] = {}

    def read(self, place: bytes, row_bytes: int) -> None:
        """A row was read. `row_bytes` is negative if there is none."""
        entry = self._entries.pop(place, None)
        if entry is None:
            if row_bytes < 0:
                return
            entry = _Entry(len(place) + _NODE_BYTES + _ENTRY_BYTES + row_bytes)
            self._budget.bytes_used += entry.size
        self._entries[place] = entry
        self._evict()

    def put(
        self, place: bytes, record: Record, before: Any, *, row_bytes: int, context: ProcessorContext, sends_old: bool
    ) -> None:
        """A row was written. `record` has the change; `before` is the value that the row had."""
        entry = self._entries.pop(place, None)
        if entry is None:
            entry = _Entry(0)
        self._budget.bytes_used -= entry.size
        task = self._task
        entry.size = len(place) + _NODE_BYTES + _ENTRY_BYTES + max(row_bytes, 0) + _source_bytes(task, record)
        self._budget.bytes_used += entry.size
        if not entry.is_dirty:
            entry.before = before
            entry.is_dirty = True
        entry.update = _Update(record, context, sends_old, task.place, task.timestamp)
        self._entries[place] = entry
        self._dirty.pop(place, None)
        self._dirty[place] = None
        self._evict()

    def flush(self) -> None:
        """Before a commit: forwards everything."""
        self._flush(None)

    def discard(self) -> None:
        """Called when the task is closed: other caches may use the bytes."""
        self._budget.bytes_used -= sum(entry.size for entry in self._entries.values())
        self._entries, self._dirty = {}, {}

    def _evict(self) -> None:
        budget = self._budget
        while budget.bytes_used > budget.bytes_max and self._entries:
            place = next(iter(self._entries))
            entry = self._entries.pop(place)
            budget.bytes_used -= entry.size
            if entry.is_dirty:
                del self._dirty[place]
                self._flush(entry)

    def _flush(self, evicted: _Entry | None) -> None:
        """Forwards the evicted entry first, and then all updates."""
        places, self._dirty = self._dirty, {}
        updates = [] if evicted is None else [(evicted.update, evicted.before)]
        waiting = []
        for place in places:
            entry = self._entries[place]
            waiting.append((place, entry))
            updates.append((entry.update, entry.before))
            # Clean from now on, because forwarding may update the entry again.
            entry.is_dirty, entry.before = False, None
        for update, before in updates:
            assert update is not None
            self._forward(update, before)
        for place, entry in waiting:
            is_deleted = entry.update is not None and entry.update.record.value.new is None
            if is_deleted and not entry.is_dirty and self._entries.pop(place, None) is not None:
                self._budget.bytes_used -= entry.size

    def _forward(self, update: _Update, before: Any) -> None:
        record, task = update.record, self._task
        new = record.value.new
        if new is None and before is None:
            # Later operators have no row to remove.
            return
        current = task.place, task.timestamp
        task.place, task.timestamp = update.place, update.timestamp
        change = Change(new, before if update.sends_old else None)
        update.context.forward(Record(record.key, change, record.timestamp, record.headers))
        task.place, task.timestamp = current


def _source_bytes(task: StreamTask, record: Record) -> int:
    metadata = task.metadata
    size = 0 if metadata is None else len(metadata.topic)
    return size + sum(len(name) + len(content or b"") for name, content in record.headers)
