"""Joins of two streams within a window of time: inner, left and outer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.machine.processor import Processor, ProcessorContext
from ottla.streams.record import NO_TIMESTAMP, Record

__all__ = ["JoinSide", "JoinWindow", "SelfJoin"]

_INTERVAL_CONFIG = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"
_INTERVAL_MS = 1000
_FOREVER = 1 << 62


class JoinWindow(Processor):
    """Keeps the records of one side for the other side."""

    def __init__(self, store: str) -> None:
        self._name = store

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store = context.get_state_store(self._name)

    def process(self, record: Record) -> None:
        self.context.forward(record)
        if record.key is not None:
            self.store.put(record.key, record.value, record.timestamp)


class _SharedTime:
    """The times that both sides of a join share."""

    def __init__(self) -> None:
        self.stream_time = NO_TIMESTAMP
        self.first_unjoined = _FOREVER
        self.next_emit_ms = 0


class JoinSide(Processor):
    """One side of a join: finds the partners of a record in the window of the other side.

    Records without a partner wait in a store that both sides share until their window is closed.
    """

    def __init__(
        self,
        *,
        join: str,
        is_left: bool,
        other_store: str,
        unjoined_store: str | None,
        emits_unjoined: bool,
        joiner: Callable[[Any, Any, Any], Any],
        before_ms: int,
        after_ms: int,
        grace_ms: int,
    ) -> None:
        self._join = join
        self.is_left = is_left
        self._names = (other_store, unjoined_store)
        self.emits_unjoined = emits_unjoined
        self.joiner = joiner
        # A left record joins right records that are at most `before` earlier and `after` later.
        self.before, self.after = (before_ms, after_ms) if is_left else (after_ms, before_ms)
        self._open_ms = {True: after_ms, False: before_ms}
        self._grace = grace_ms

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        other, unjoined = self._names
        self._other = context.get_state_store(other)
        self.unjoined = None if unjoined is None else context.get_state_store(unjoined)
        self.time: _SharedTime = context.shared(self._join, _SharedTime)
        self._interval_ms = int(context.config.get(_INTERVAL_CONFIG, _INTERVAL_MS))

    def process(self, record: Record) -> None:
        time, timestamp = self.time, record.timestamp
        time.stream_time = max(time.stream_time, timestamp)
        if self.emits_unjoined and record.key is None and record.value is not None:
            self.context.forward(record.with_value(self._joined(None, record.value, None)))
            return
        if record.key is None or record.value is None:
            self.context.drop("null key or value")
            return
        if self.unjoined is not None and timestamp == time.stream_time:
            self._emit_closed(record)
        first, last = max(0, timestamp - self.before), max(0, timestamp + self.after)
        partners = list(self._other.fetch_range(record.key, first, last))
        for start, value in partners:
            if self.unjoined is not None:
                self.unjoined.remove(start, not self.is_left, record.key)
            joined = self._joined(record.key, record.value, value)
            self.context.forward(record.with_value(joined).with_timestamp(max(timestamp, start)))
        if partners or not self.emits_unjoined:
            return
        if self.unjoined is None or last < time.stream_time:
            self.context.forward(record.with_value(self._joined(record.key, record.value, None)))
        else:
            time.first_unjoined = min(time.first_unjoined, timestamp)
            self.unjoined.add(timestamp, self.is_left, record.key, record.value)

    def _joined(self, key: Any, own_value: Any, other_value: Any) -> Any:
        return self.joiner(key, own_value, other_value) if self.is_left else self.joiner(key, other_value, own_value)

    def _emit_closed(self, record: Record) -> None:
        """Emits records that never found a partner, as soon as their window is closed."""
        time, store = self.time, self.unjoined
        assert store is not None
        open_ms = self.after + self._grace
        # Kafka Streams looks even while no record waits, unless the window has no time after a record.
        is_waiting = time.first_unjoined < _FOREVER or open_ms == 0
        if is_waiting and time.first_unjoined + open_ms >= time.stream_time:
            return
        now_ms = self.context.current_system_time_ms()
        if now_ms < time.next_emit_ms:
            return
        time.next_emit_ms = now_ms + self._interval_ms
        time.first_unjoined = _FOREVER
        open_sides: set[bool] = set()
        emitted = None
        for entry in store.all():
            time.first_unjoined = entry.timestamp
            if len(open_sides) == 2:
                break
            if entry.timestamp + self._open_ms[entry.is_left] + self._grace >= time.stream_time:
                open_sides.add(entry.is_left)
                continue
            left, right = (entry.value, None) if entry.is_left else (None, entry.value)
            joined = self.joiner(entry.key, left, right)
            self.context.forward(Record(entry.key, joined, entry.timestamp, record.headers))
            place = entry[:3]
            if emitted is not None and emitted != place:
                store.remove(*emitted, blindly=True)
            emitted = place
        if emitted is not None:
            store.remove(*emitted, blindly=True)


class SelfJoin(Processor):
    """A stream joined with itself, with one store (`topology.optimization`)."""

    def __init__(
        self,
        *,
        store: str,
        joiner: Callable[[Any, Any, Any], Any],
        before_ms: int,
        after_ms: int,
        retention_ms: int,
    ) -> None:
        self._name = store
        self._joiner = joiner
        self._before, self._after = before_ms, after_ms
        self._retention = retention_ms
        self._observed = NO_TIMESTAMP

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._name)

    def process(self, record: Record) -> None:
        key, value, timestamp = record.key, record.value, record.timestamp
        if key is None or value is None:
            self.context.drop("null key or value")
            return
        self._observed = max(self._observed, timestamp)
        is_kept = timestamp > self._observed - self._retention + 1
        for start, other in self._fetch(key, timestamp - self._before, timestamp + self._after):
            self._forward(record, self._joiner(key, value, other), start)
        # The record is also the partner of itself; results follow the order of their timestamps.
        joined_itself = not is_kept
        for start, other in self._fetch(key, timestamp - self._after, timestamp + self._before):
            if start > timestamp and not joined_itself:
                joined_itself = True
                self._forward(record, self._joiner(key, value, value), timestamp)
            self._forward(record, self._joiner(key, other, value), start)
        if not joined_itself:
            self._forward(record, self._joiner(key, value, value), timestamp)

    def _fetch(self, key: Any, first: int, last: int) -> list[tuple[int, Any]]:
        return list(self._store.fetch_range(key, max(0, first), max(0, last)))

    def _forward(self, record: Record, joined: Any, other_timestamp: int) -> None:
        self.context.forward(record.with_value(joined).with_timestamp(max(record.timestamp, other_timestamp)))
