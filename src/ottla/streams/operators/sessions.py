"""Aggregates of session windows: records of a key that are close in time share a session, and sessions merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.machine.processor import Processor, ProcessorContext
from ottla.streams.operators.aggregates import AggregatePlan, Aggregator, WindowedProcessor
from ottla.streams.operators.emission import EmitStrategy
from ottla.streams.operators.tables import View, forward_update
from ottla.streams.record import Change, Record, ValueAndTimestamp, Window, Windowed

__all__ = ["SessionAggregate"]


class SessionGetter:
    is_versioned = False

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: Windowed, as_of: int | None = None) -> ValueAndTimestamp | None:  # noqa: ARG002
        aggregate = self._store.fetch_session(key.key, key.window.start, key.window.end)
        return None if aggregate is None else ValueAndTimestamp(aggregate, key.window.end)


class SessionStoreView:
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def getter(self, context: ProcessorContext) -> SessionGetter:
        return SessionGetter(context.get_state_store(self.stores[0]))


class SessionAggregate(AggregatePlan):
    def __init__(
        self,
        store: str,
        initializer: Callable[[], Any],
        aggregator: Aggregator,
        merger: Callable[[Any, Any, Any], Any],
        windows: Any,
        strategy: EmitStrategy,
    ) -> None:
        super().__init__(store, initializer, aggregator)
        self.merger = merger
        self.windows = windows
        self.strategy = strategy
        self.grace_ms = windows.grace_ms + windows.gap_ms

    def __call__(self) -> Processor:
        return _SessionProcessor(self)

    def view(self) -> View:
        return SessionStoreView(self.store)


class _SessionProcessor(WindowedProcessor):
    def __init__(self, plan: SessionAggregate) -> None:
        super().__init__(plan.store, plan.strategy)
        self._plan = plan

    def process(self, record: Record) -> None:
        if record.key is None:
            self.context.drop("null key")
            return
        plan, timestamp, gap = self._plan, record.timestamp, self._plan.windows.gap_ms
        self.observed = max(self.observed, timestamp)
        close_time = self.observed - plan.windows.grace_ms - gap
        aggregate, window = plan.initializer(), Window(timestamp, timestamp)
        merged = list(self._store.find_sessions(record.key, timestamp - gap, timestamp + gap))
        for session, value in merged:
            aggregate = plan.merger(record.key, aggregate, value)
            window = Window(min(window.start, session.window.start), max(window.end, session.window.end))
        if window.end < close_time:
            self.context.drop("expired session")
        else:
            if window != Window(timestamp, timestamp):
                for session, value in merged:
                    self._store.remove(session)
                    self._forward_update(record, session, value, None, value)
            aggregate = plan.aggregator(record.key, record.value, aggregate)
            session = Windowed(record.key, window)
            known = None if self._store.cache is None else self._store.fetch_session(record.key, *window)
            self._store.put(session, aggregate)
            self._forward_update(record, session, None, aggregate, known)
        if not self._emits_updates and self._emitter.is_due(close_time):
            self._emit_closed(record, close_time)

    def _forward_update(self, record: Record, session: Windowed, old: Any, new: Any, known: Any) -> None:
        if self._emits_updates:
            change = Change(new, old if self._plan.sends_old else None)
            # As in Kafka Streams, only the record cache passes headers on.
            headers = () if self._store.cache is None else record.headers
            update = Record(session, change, session.window.end, headers)
            forward_update(self.context, self._store, update, lambda: known, sends_old=self._plan.sends_old)

    def _emit_closed(self, record: Record, close_time: int) -> None:
        lower, upper = self._first_start(), close_time - 1
        if upper < 0 or upper < lower:
            return
        for session, value in self._store.find_ended(lower, upper):
            self.context.forward(Record(session, Change(value, None), session.window.end, record.headers))
        self._emitter.emitted(close_time)
        self._store.keep_from(max(0, close_time))

    def _first_start(self) -> int:
        return max(0, self._emitter.last_close_time)
