"""Streams by key and window, ready to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.aggregation import (
    count_one,
    count_store,
    merge_counts,
    named_store,
    nothing,
    reducing,
    session_specification,
    session_windowed,
    time_windowed,
    window_specification,
    zero,
)
from ottla.streams.dsl.options import Materialized
from ottla.streams.dsl.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from ottla.streams.errors import TopologyError
from ottla.streams.operators.aggregates import WindowAggregate
from ottla.streams.operators.emission import EmitStrategy
from ottla.streams.operators.sessions import SessionAggregate
from ottla.streams.operators.sliding import SlidingAggregate

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import KGroupedStream
    from ottla.streams.dsl.table import KTable

__all__ = ["SessionWindowedKStream", "TimeWindowedKStream", "time_window_plan"]


def time_window_plan(
    store: str,
    initializer: Callable[[], Any],
    aggregator: Callable[[Any, Any, Any], Any],
    windows: Any,
    strategy: EmitStrategy,
) -> WindowAggregate | SlidingAggregate:
    kind = SlidingAggregate if isinstance(windows, SlidingWindows) else WindowAggregate
    return kind(store, initializer, aggregator, windows, strategy)


def window_retention(windows: Any) -> int:
    """How long a window must be kept. A sliding window may be looked up for one more window size."""
    size: int = windows.size_ms
    return 2 * size if isinstance(windows, SlidingWindows) else size


class TimeWindowedKStream:
    """Tumbling, hopping and sliding windows."""

    def __init__(self, stream: KGroupedStream, windows: TimeWindows | UnlimitedWindows | SlidingWindows) -> None:
        self._stream = stream
        self._windows = windows
        self._strategy = EmitStrategy.ON_WINDOW_UPDATE

    def emit_strategy(self, strategy: EmitStrategy) -> TimeWindowedKStream:
        """Results come with every update, or once when a window is closed."""
        if isinstance(self._windows, UnlimitedWindows) and strategy is EmitStrategy.ON_WINDOW_CLOSE:
            raise TopologyError("Unlimited windows never close; emit on updates.")
        self._strategy = strategy
        return self

    def count(self, materialized: Materialized | None = None, named: str | None = None) -> KTable:
        is_sliding = isinstance(self._windows, SlidingWindows)
        store, materialized = count_store(self._stream.graph, materialized, skips_number=not is_sliding)
        return self._build(store, materialized, "KSTREAM-AGGREGATE-", named, zero, count_one)

    def reduce(
        self, reducer: Callable[[Any, Any], Any], materialized: Materialized | None = None, named: str | None = None
    ) -> KTable:
        store, materialized = named_store(self._stream.graph, materialized, "KSTREAM-REDUCE-")
        materialized = materialized.with_value_serde(materialized.value_serde or self._stream.value_serde)
        return self._build(store, materialized, "KSTREAM-REDUCE-", named, nothing, reducing(reducer))

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        store, materialized = named_store(self._stream.graph, materialized, "KSTREAM-AGGREGATE-")
        return self._build(store, materialized, "KSTREAM-AGGREGATE-", named, initializer, aggregator)

    def _build(
        self,
        store: str,
        materialized: Materialized,
        prefix: str,
        named: str | None,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
    ) -> KTable:
        stream, windows = self._stream, self._windows
        materialized = materialized.with_key_serde(materialized.key_serde or stream.key_serde)
        name = stream.graph.name(named, prefix)
        retained = window_retention(windows)
        specification = window_specification(store, materialized, retained, windows.grace_ms)
        specification.window_size_ms = windows.size_ms
        plan = time_window_plan(specification.name, initializer, aggregator, windows, self._strategy)
        key_serde = time_windowed(materialized.key_serde, windows.size_ms)
        return stream.builder.build(name, specification, plan, key_serde, materialized.value_serde)


class SessionWindowedKStream:
    def __init__(self, stream: KGroupedStream, windows: SessionWindows) -> None:
        self._stream = stream
        self._windows = windows
        self._strategy = EmitStrategy.ON_WINDOW_UPDATE

    def emit_strategy(self, strategy: EmitStrategy) -> SessionWindowedKStream:
        """Results come with every update, or once when a session is closed."""
        self._strategy = strategy
        return self

    def count(self, materialized: Materialized | None = None, named: str | None = None) -> KTable:
        store, materialized = count_store(self._stream.graph, materialized)
        return self._build(store, materialized, "KSTREAM-AGGREGATE-", named, zero, count_one, merge_counts)

    def reduce(
        self, reducer: Callable[[Any, Any], Any], materialized: Materialized | None = None, named: str | None = None
    ) -> KTable:
        store, materialized = named_store(self._stream.graph, materialized, "KSTREAM-REDUCE-")
        materialized = materialized.with_value_serde(materialized.value_serde or self._stream.value_serde)
        function = reducing(reducer)
        return self._build(store, materialized, "KSTREAM-REDUCE-", named, nothing, function, function.merge)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        """The merger gets key and two aggregates, because sessions can merge."""
        store, materialized = named_store(self._stream.graph, materialized, "KSTREAM-AGGREGATE-")
        return self._build(store, materialized, "KSTREAM-AGGREGATE-", named, initializer, aggregator, merger)

    def _build(
        self,
        store: str,
        materialized: Materialized,
        prefix: str,
        named: str | None,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any],
    ) -> KTable:
        stream, windows = self._stream, self._windows
        materialized = materialized.with_key_serde(materialized.key_serde or stream.key_serde)
        name = stream.graph.name(named, prefix)
        specification = session_specification(store, materialized, windows.gap_ms, windows.grace_ms)
        plan = SessionAggregate(specification.name, initializer, aggregator, merger, windows, self._strategy)
        key_serde = session_windowed(materialized.key_serde)
        return stream.builder.build(name, specification, plan, key_serde, materialized.value_serde)
