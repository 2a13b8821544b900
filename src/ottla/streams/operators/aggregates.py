"""Aggregates of grouped streams: by key, and by key and time window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.machine.processor import PreparedProcessor, Processor, ProcessorContext
from ottla.streams.operators.emission import CloseEmitter, EmitStrategy
from ottla.streams.operators.tables import StoreView, View, forward_update, put_row
from ottla.streams.record import NO_TIMESTAMP, Change, Record, ValueAndTimestamp, Window, Windowed

__all__ = ["Aggregate", "AggregatePlan", "WindowAggregate", "WindowPlan", "WindowedProcessor"]

Aggregator = Callable[[Any, Any, Any], Any]


class AggregatePlan:
    """The base class of the plans of aggregates."""

    def __init__(self, store: str, initializer: Callable[[], Any], aggregator: Aggregator) -> None:
        self.store = store
        self.initializer = initializer
        self.aggregator = aggregator
        self.sends_old = False
        # How long suppress() waits after the end of a window; None for aggregates without windows.
        self.grace_ms: int | None = None

    def view(self) -> View:
        return StoreView(self.store)

    def send_old_values(self, *, force: bool) -> bool:  # noqa: ARG002
        self.sends_old = True
        return True


class Aggregate(AggregatePlan):
    """count, reduce and aggregate by key. `is_count` allows the column form of counts (`columnar/aggregates`)."""

    def __init__(
        self, store: str, initializer: Callable[[], Any], aggregator: Aggregator, *, is_count: bool = False
    ) -> None:
        super().__init__(store, initializer, aggregator)
        self.is_count = is_count

    def __call__(self) -> Processor:
        return _AggregateProcessor(self)


class _AggregateProcessor(Processor):
    def __init__(self, plan: Aggregate) -> None:
        self._plan = plan
        self._sends_old = plan.sends_old

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._plan.store)

    def process(self, record: Record) -> None:
        if record.key is None or record.value is None:
            self.context.drop("null key or value")
            return
        row = self._store.get(record.key)
        if row is None:
            before, timestamp = self._plan.initializer(), record.timestamp
        else:
            before, timestamp = row.value, max(record.timestamp, row.timestamp)
        new = self._plan.aggregator(record.key, record.value, before)
        old = before if self._sends_old else None
        put_row(self.context, self._store, record, timestamp, new, old, sends_old=self._sends_old)


class WindowGetter:
    """Rows of a window store, by windowed key."""

    is_versioned = False

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: Windowed, as_of: int | None = None) -> ValueAndTimestamp | None:  # noqa: ARG002
        row: ValueAndTimestamp | None = self._store.fetch(key.key, key.window.start)
        return row


class WindowStoreView:
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def getter(self, context: ProcessorContext) -> WindowGetter:
        return WindowGetter(context.get_state_store(self.stores[0]))


class WindowPlan(AggregatePlan):
    """The base class of the plans of time windows, whose rows are in a window store."""

    def __init__(
        self, store: str, initializer: Callable[[], Any], aggregator: Aggregator, windows: Any, strategy: EmitStrategy
    ) -> None:
        super().__init__(store, initializer, aggregator)
        self.windows = windows
        self.strategy = strategy
        self.grace_ms = windows.grace_ms

    def view(self) -> View:
        return WindowStoreView(self.store)


class WindowedProcessor(PreparedProcessor):
    """The base class of the processors of windows. `_first_start` is the start of the first window that is kept."""

    def __init__(self, store: str, strategy: EmitStrategy) -> None:
        self._store_name = store
        self._strategy = strategy
        # The stream time: the highest timestamp so far.
        self.observed = NO_TIMESTAMP
        self._emits_updates = strategy is EmitStrategy.ON_WINDOW_UPDATE

    def prepare(self, context: ProcessorContext) -> None:
        """A restore keeps the windows that were not emitted."""
        self._store = context.get_state_store(self._store_name)
        self._emitter = CloseEmitter(context, self._strategy, self._store_name)
        if not self._emits_updates:
            self._store.keep_from(self._first_start())

    def _first_start(self) -> int:
        raise NotImplementedError


class WindowAggregate(WindowPlan):
    """Aggregates of tumbling and hopping windows. `windows` gives the windows of a timestamp."""

    def __call__(self) -> Processor:
        return _WindowAggregateProcessor(self)


class _WindowAggregateProcessor(WindowedProcessor):
    def __init__(self, plan: WindowAggregate) -> None:
        super().__init__(plan.store, plan.strategy)
        self._plan = plan
        self._windows = plan.windows

    def process(self, record: Record) -> None:
        if record.key is None:
            self.context.drop("null key")
            return
        timestamp = record.timestamp
        self.observed = max(self.observed, timestamp)
        close_time = self.observed - self._windows.grace_ms
        for window in self._windows.windows_for(timestamp):
            if window.end > close_time:
                self._update(record, window)
            else:
                self.context.drop("expired window")
        if not self._emits_updates and self._emitter.is_due(close_time):
            self._emit_closed(record, close_time)

    def _update(self, record: Record, window: Window) -> None:
        plan, store = self._plan, self._store
        row = store.fetch(record.key, window.start)
        if row is None:
            before, timestamp = plan.initializer(), record.timestamp
        else:
            before, timestamp = row.value, max(record.timestamp, row.timestamp)
        new = plan.aggregator(record.key, record.value, before)
        store.put(record.key, ValueAndTimestamp(new, timestamp), window.start)
        if self._emits_updates:
            change = Change(new, before if plan.sends_old else None)
            update = Record(Windowed(record.key, window), change, timestamp, record.headers)
            known = None if row is None else row.value
            forward_update(self.context, store, update, lambda: known, sends_old=plan.sends_old)

    def _emit_closed(self, record: Record, close_time: int) -> None:
        size, last = self._windows.size_ms, self._emitter.last_close_time
        upper = close_time - size
        if upper < 0:
            return
        lower = self._first_start()
        if last != NO_TIMESTAMP and self._windows.windows_for(upper) == self._windows.windows_for(lower - 1):
            return
        for windowed, row in self._store.fetch_closed(lower, upper):
            self.context.forward(Record(windowed, Change(row.value, None), row.timestamp, record.headers))
        self._emitter.emitted(close_time)
        self._store.keep_from(self._first_start())

    def _first_start(self) -> int:
        """The start of the first window that was not emitted."""
        last = self._emitter.last_close_time
        return 0 if last == NO_TIMESTAMP else max(0, last - self._windows.size_ms) + 1
