"""`CogroupedKStream`: several grouped streams that are aggregated into one table (KIP-150)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.aggregation import (
    named_store,
    session_specification,
    session_windowed,
    time_windowed,
    window_specification,
)
from ottla.streams.dsl.graph import Graph, GraphNode
from ottla.streams.dsl.handle import key_value_specification, stateful, stateless
from ottla.streams.dsl.options import Materialized
from ottla.streams.dsl.windowed import time_window_plan, window_retention
from ottla.streams.dsl.windows import SessionWindows
from ottla.streams.operators.aggregates import Aggregate
from ottla.streams.operators.emission import EmitStrategy
from ottla.streams.operators.sessions import SessionAggregate
from ottla.streams.operators.tables import TablePassThrough
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreSpecification

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import KGroupedStream
    from ottla.streams.dsl.table import KTable

__all__ = ["CogroupedKStream", "WindowedCogroupedKStream"]

_PREFIX = "COGROUPKSTREAM-AGGREGATE-"

Aggregator = Callable[[Any, Any, Any], Any]


class CogroupedKStream:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._streams: dict[KGroupedStream, Aggregator] = {}
        self._parents: dict[KGroupedStream, GraphNode] = {}

    def cogroup(self, stream: KGroupedStream, aggregator: Aggregator) -> CogroupedKStream:
        """Adds a stream with its own aggregator, a function of key, value and aggregate."""
        self._streams[stream] = aggregator
        return self

    def aggregate(
        self,
        initializer: Callable[[], Any],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        store, materialized = named_store(self.graph, materialized, _PREFIX)
        specification = key_value_specification(store, materialized)
        plans = [Aggregate(specification.name, initializer, aggregator) for aggregator in self._streams.values()]
        return self.build(plans, specification, materialized.key_serde, materialized.value_serde, named)

    def windowed_by(self, windows: Any) -> WindowedCogroupedKStream:
        return WindowedCogroupedKStream(self, windows)

    @property
    def aggregators(self) -> list[Aggregator]:
        return list(self._streams.values())

    def build(
        self,
        plans: list[Any],
        specification: StoreSpecification,
        key_serde: Serde | None,
        value_serde: Serde | None,
        named: str | None,
    ) -> KTable:
        """One aggregate for each stream, all with one store, and a merge node."""
        from ottla.streams.dsl.table import KTable

        self._repartition(specification.name)
        nodes = []
        for index, (stream, plan) in enumerate(zip(self._streams, plans, strict=True)):
            name = self.graph.name(named, _PREFIX, f"-cogroup-agg-{index}")
            if index == 0:
                node = stateful(name, plan, specification=specification, grace_ms=plan.grace_ms)
            else:
                node = stateful(name, plan, stores=[specification.name], grace_ms=plan.grace_ms)
            nodes.append(node)
            self.graph.add(self._parents[stream], node)
        merge = self.graph.name(named, "COGROUPKSTREAM-MERGE-", "-cogroup-merge")
        plan = TablePassThrough(plans, plans[0].view())
        merge_node = stateless(merge, plan)
        self.graph.add(nodes, merge_node)
        return KTable(self.graph, merge_node, merge, {merge}, key_serde, value_serde, plan)

    def _repartition(self, store: str) -> None:
        for stream in self._streams:
            if not stream.needs_repartition:
                self._parents[stream] = stream.node
                continue
            node = self.graph.new_repartition(stream.grouped.name or store, stream.key_serde, stream.value_serde)
            if stream not in self._parents:
                self.graph.add(stream.node, node)
                self._parents[stream] = node
        first, *other_streams = self._parents
        first.copartition_with(*other_streams)


class WindowedCogroupedKStream:
    def __init__(self, cogrouped: CogroupedKStream, windows: Any) -> None:
        self._cogrouped = cogrouped
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], Any],
        merger: Callable[[Any, Any, Any], Any] | None = None,
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        """For session windows a merger of two aggregates is needed."""
        if isinstance(merger, Materialized):
            merger, materialized = None, merger
        cogrouped, windows = self._cogrouped, self._windows
        store, materialized = named_store(cogrouped.graph, materialized, _PREFIX)
        strategy = EmitStrategy.ON_WINDOW_UPDATE
        plans: list[Any]
        if isinstance(windows, SessionWindows):
            if merger is None:
                raise TypeError("aggregate() of session windows needs a merger of two aggregates")
            specification = session_specification(store, materialized, windows.gap_ms, windows.grace_ms)
            plans = [
                SessionAggregate(specification.name, initializer, aggregator, merger, windows, strategy)
                for aggregator in cogrouped.aggregators
            ]
            key_serde = session_windowed(materialized.key_serde)
        else:
            specification = window_specification(store, materialized, window_retention(windows), windows.grace_ms)
            specification.window_size_ms = windows.size_ms
            plans = [
                time_window_plan(specification.name, initializer, aggregator, windows, strategy)
                for aggregator in cogrouped.aggregators
            ]
            key_serde = time_windowed(materialized.key_serde, windows.size_ms)
        return cogrouped.build(plans, specification, key_serde, materialized.value_serde, named)
