"""Aggregates of sliding windows (KIP-450): a window for every record that ends there, and one that begins after it.

A record changes the windows that contain it, and may create three: its own left window, its own right window if later
records exist, and the right window of the record before it.
"""

from __future__ import annotations

from typing import Any

from ottla.streams.machine.processor import Processor
from ottla.streams.operators.aggregates import WindowedProcessor, WindowPlan
from ottla.streams.operators.tables import forward_update
from ottla.streams.record import NO_TIMESTAMP, Change, Record, ValueAndTimestamp, Window, Windowed

__all__ = ["SlidingAggregate"]


class SlidingAggregate(WindowPlan):
    def __call__(self) -> Processor:
        return _SlidingProcessor(self)


class _Neighbours:
    """The existing windows around a record, and the timestamp of the record before it."""

    def __init__(self) -> None:
        self.starts: set[int] = set()
        self.left: ValueAndTimestamp | None = None
        self.right: ValueAndTimestamp | None = None
        self.has_left = False
        self.has_right = False
        self.previous: int | None = None


class _SlidingProcessor(WindowedProcessor):
    def __init__(self, plan: SlidingAggregate) -> None:
        super().__init__(plan.store, plan.strategy)
        self._plan = plan
        self._size = plan.windows.size_ms

    def process(self, record: Record) -> None:
        if record.key is None or record.value is None:
            self.context.drop("null key or value")
            return
        self.observed = max(self.observed, record.timestamp)
        close_time = self.observed - self._plan.windows.grace_ms
        if record.timestamp + self._size < close_time:
            self.context.drop("expired window")
            return
        if record.timestamp < self._size:
            self._process_early(record, close_time)
            return
        self._process(record, close_time)
        if not self._emits_updates and self._emitter.is_due(close_time):
            self._emit_closed(record, close_time)

    def _process(self, record: Record, close_time: int) -> None:
        """Visits the windows of the key from the latest to the earliest that can matter."""
        neighbours, timestamp = _Neighbours(), record.timestamp
        windows = self._store.backward_fetch(record.key, max(0, timestamp - 2 * self._size), timestamp + 1)
        for start, row in windows:
            neighbours.starts.add(start)
            end = start + self._size
            if start == timestamp + 1:
                neighbours.has_right = True
            elif end > timestamp:
                neighbours.right = row if neighbours.right is None else neighbours.right
                self._update(Window(start, end), row, record, close_time)
            elif end == timestamp:
                neighbours.has_left = True
                self._update(Window(start, end), row, record, close_time)
                if row.timestamp >= timestamp:
                    # An earlier record had this timestamp: all of its windows exist.
                    return
                neighbours.previous = row.timestamp
            else:
                neighbours.left, neighbours.previous = row, row.timestamp
                break
        self._create(neighbours, record, close_time)

    def _create(self, neighbours: _Neighbours, record: Record, close_time: int) -> None:
        timestamp, previous = record.timestamp, neighbours.previous
        if previous is not None and previous + 1 not in neighbours.starts and previous + 1 + self._size >= timestamp:
            self._create_right_of_previous(previous, record, close_time)
        if not neighbours.has_left:
            if previous is not None and timestamp - self._size <= previous:
                assert neighbours.left is not None
                row = ValueAndTimestamp(neighbours.left.value, timestamp)
            else:
                row = ValueAndTimestamp(self._plan.initializer(), timestamp)
            self._update(Window(timestamp - self._size, timestamp), row, record, close_time)
        if not neighbours.has_right and neighbours.right is not None and neighbours.right.timestamp > timestamp:
            self._create_right(neighbours.right, record)

    def _process_early(self, record: Record, close_time: int) -> None:
        """Records before the first full window share the window that begins at 0."""
        neighbours, combined, timestamp = _Neighbours(), None, record.timestamp
        for start, row in self._store.fetch_range(record.key, 0, timestamp + 1):
            neighbours.starts.add(start)
            if start == 0:
                combined = row
                if row.timestamp < timestamp:
                    neighbours.previous = row.timestamp
            elif start <= timestamp:
                neighbours.right = row
                self._update(Window(start, start + self._size), row, record, close_time)
            else:
                neighbours.has_right = True
        if neighbours.right is None and combined is not None and combined.timestamp > timestamp:
            neighbours.right = combined
        if not neighbours.has_right and neighbours.right is not None and neighbours.right.timestamp > timestamp:
            self._create_right(neighbours.right, record)
        if neighbours.previous is not None and neighbours.previous + 1 not in neighbours.starts:
            self._create_right_of_previous(neighbours.previous, record, close_time)
        row = combined or ValueAndTimestamp(self._plan.initializer(), timestamp)
        self._update(Window(0, self._size), row, record, close_time)

    def _create_right(self, row: ValueAndTimestamp, record: Record) -> None:
        window = Window(record.timestamp + 1, record.timestamp + 1 + self._size)
        known = self._known(record.key, window.start)
        self._store.put(record.key, row, window.start)
        self._forward_update(record, window, None, row.value, row.timestamp, known)

    def _create_right_of_previous(self, previous: int, record: Record, close_time: int) -> None:
        row = ValueAndTimestamp(self._plan.initializer(), record.timestamp)
        self._update(Window(previous + 1, previous + 1 + self._size), row, record, close_time)

    def _update(self, window: Window, row: ValueAndTimestamp, record: Record, close_time: int) -> None:
        if window.end < close_time:
            self.context.drop("expired window")
            return
        new = self._plan.aggregator(record.key, record.value, row.value)
        timestamp = record.timestamp if row.value is None else max(record.timestamp, row.timestamp)
        known = self._known(record.key, window.start)
        self._store.put(record.key, ValueAndTimestamp(new, timestamp), window.start)
        self._forward_update(record, window, row.value, new, timestamp, known)

    def _known(self, key: Any, start: int) -> Any:
        """The value of a window, for the record cache."""
        row = None if self._store.cache is None else self._store.fetch(key, start)
        return None if row is None else row.value

    def _forward_update(self, record: Record, window: Window, old: Any, new: Any, timestamp: int, known: Any) -> None:
        if self._emits_updates:
            change = Change(new, old if self._plan.sends_old else None)
            update = Record(Windowed(record.key, window), change, timestamp, record.headers)
            forward_update(self.context, self._store, update, lambda: known, sends_old=self._plan.sends_old)

    def _emit_closed(self, record: Record, close_time: int) -> None:
        upper = close_time - self._size - 1
        if upper < 0:
            return
        for windowed, row in self._store.fetch_closed(self._first_start(), upper):
            self.context.forward(Record(windowed, Change(row.value, None), row.timestamp, record.headers))
        self._emitter.emitted(close_time)
        self._store.keep_from(self._first_start())

    def _first_start(self) -> int:
        """The start of the first window that was not emitted."""
        last = self._emitter.last_close_time
        return 0 if last == NO_TIMESTAMP else max(0, last - self._size)
