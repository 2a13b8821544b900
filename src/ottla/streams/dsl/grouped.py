"""`KGroupedStream`: a stream by key, ready to be aggregated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.aggregation import AggregateBuilder, count_one, count_store, named_store, nothing, reducing, zero
from ottla.streams.dsl.graph import Graph, GraphNode
from ottla.streams.dsl.handle import Handle, key_value_specification
from ottla.streams.dsl.options import Grouped, Materialized
from ottla.streams.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream
from ottla.streams.dsl.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from ottla.streams.errors import TopologyError
from ottla.streams.operators.aggregates import Aggregate

if TYPE_CHECKING:
    from ottla.streams.dsl.cogroup import CogroupedKStream
    from ottla.streams.dsl.table import KTable

__all__ = ["KGroupedStream"]


class KGroupedStream(Handle):
    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        sources: Iterable[str],
        grouped: Grouped,
        *,
        needs_repartition: bool,
    ) -> None:
        super().__init__(graph, node, name, sources, grouped.key_serde, grouped.value_serde)
        self.grouped = grouped
        self.needs_repartition = needs_repartition
        self.builder = AggregateBuilder(self)

    def count(self, materialized: Materialized | None = None, named: str | None = None) -> KTable:
        """The number of records by key; records with a null key or value are not counted."""
        store, materialized = count_store(self.graph, materialized)
        name = self.graph.name(named, "KSTREAM-AGGREGATE-")
        return self._build(name, store, materialized, Aggregate(store, zero, count_one, is_count=True))

    def reduce(
        self, reducer: Callable[[Any, Any], Any], materialized: Materialized | None = None, named: str | None = None
    ) -> KTable:
        """Combines the values of a key: the function gets the aggregate and a value."""
        store, materialized = named_store(self.graph, materialized, "KSTREAM-REDUCE-")
        materialized = materialized.with_value_serde(materialized.value_serde or self.value_serde)
        name = self.graph.name(named, "KSTREAM-REDUCE-")
        return self._build(name, store, materialized, Aggregate(store, nothing, reducing(reducer)))

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        """Folds the values of a key: the function gets key, value and aggregate, and returns the new aggregate."""
        store, materialized = named_store(self.graph, materialized, "KSTREAM-AGGREGATE-")
        name = self.graph.name(named, "KSTREAM-AGGREGATE-")
        return self._build(name, store, materialized, Aggregate(store, initializer, aggregator))

    def windowed_by(self, windows: TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows) -> Any:
        """Aggregates by key and window: tumbling, hopping, sliding or session windows."""
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self, windows)
        if isinstance(windows, TimeWindows | UnlimitedWindows | SlidingWindows):
            return TimeWindowedKStream(self, windows)
        raise TopologyError(f"{windows!r} are no windows to aggregate by; use TimeWindows, for instance.")

    def cogroup(self, aggregator: Callable[[Any, Any, Any], Any]) -> CogroupedKStream:
        """Aggregates several grouped streams into one table."""
        from ottla.streams.dsl.cogroup import CogroupedKStream

        return CogroupedKStream(self.graph).cogroup(self, aggregator)

    def _build(self, name: str, store: str, materialized: Materialized, plan: Aggregate) -> KTable:
        materialized = materialized.with_key_serde(materialized.key_serde or self.key_serde)
        return self.builder.build(
            name,
            key_value_specification(store, materialized),
            plan,
            materialized.key_serde,
            materialized.value_serde,
            is_versioned=materialized.is_versioned,
        )
