"""`KGroupedTable`: a table by a new key, ready to be aggregated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.aggregation import named_store, zero
from ottla.streams.dsl.graph import Graph, GraphNode
from ottla.streams.dsl.handle import Handle, key_value_specification, stateful
from ottla.streams.dsl.options import Grouped, Materialized
from ottla.streams.operators.tables import GroupedTableAggregate
from ottla.streams.serdes import ChangeSerde, Serdes
from ottla.streams.topology.topology import InternalTopic, Topology

if TYPE_CHECKING:
    from ottla.streams.dsl.table import KTable

__all__ = ["KGroupedTable"]


def _add_one(key: Any, value: Any, aggregate: int) -> int:  # noqa: ARG001
    return aggregate + 1


def _subtract_one(key: Any, value: Any, aggregate: int) -> int:  # noqa: ARG001
    return aggregate - 1


class _Reducer:
    def __init__(self, reducer: Callable[[Any, Any], Any]) -> None:
        self._reducer = reducer

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:  # noqa: ARG002
        return self._reducer(aggregate, value)


class KGroupedTable(Handle):
    def __init__(self, graph: Graph, node: GraphNode, name: str, sources: Iterable[str], grouped: Grouped) -> None:
        super().__init__(graph, node, name, sources, grouped.key_serde, grouped.value_serde)
        self._grouped = grouped
        self._repartition: GraphNode | None = None

    def count(self, materialized: Materialized | None = None, named: str | None = None) -> KTable:
        store, materialized = named_store(self.graph, materialized, "KTABLE-AGGREGATE-")
        materialized = materialized.with_value_serde(materialized.value_serde or Serdes.long())
        plan = GroupedTableAggregate(store, zero, _add_one, _subtract_one)
        return self._build(plan, named, "KTABLE-AGGREGATE-", materialized)

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        """The functions get the aggregate and a value; old values are subtracted, new ones added."""
        store, materialized = named_store(self.graph, materialized, "KTABLE-AGGREGATE-")
        materialized = materialized.with_value_serde(materialized.value_serde or self.value_serde)
        plan = GroupedTableAggregate(store, None, _Reducer(adder), _Reducer(subtractor))
        return self._build(plan, named, "KTABLE-REDUCE-", materialized)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        """The functions get key, value and aggregate; old values are subtracted, new ones added."""
        store, materialized = named_store(self.graph, materialized, "KTABLE-AGGREGATE-")
        plan = GroupedTableAggregate(store, initializer, adder, subtractor)
        return self._build(plan, named, "KTABLE-AGGREGATE-", materialized)

    def _build(self, plan: GroupedTableAggregate, named: str | None, prefix: str, materialized: Materialized) -> KTable:
        from ottla.streams.dsl.table import KTable

        graph = self.graph
        materialized = materialized.with_key_serde(materialized.key_serde or self.key_serde)
        sink = graph.name(named, "KSTREAM-SINK-", "-sink")
        source = graph.name(named, "KSTREAM-SOURCE-", "-source")
        name = graph.name(named, prefix)
        if self._repartition is None or self._grouped.name is None:
            topic = f"{self._grouped.name or plan.store}-repartition"
            self._repartition = self._new_repartition(sink, source, topic)
        graph.add(self.node, self._repartition)
        specification = key_value_specification(plan.store, materialized)
        node = stateful(name, plan, specification=specification, is_versioned=materialized.is_versioned)
        graph.add(self._repartition, node)
        return KTable(graph, node, name, {source}, materialized.key_serde, materialized.value_serde, plan)

    def _new_repartition(self, sink: str, source: str, topic: str) -> GraphNode:
        key_serde, value_serde = self.key_serde, ChangeSerde(self.value_serde)

        def write(topology: Topology, parents: Sequence[str]) -> None:
            topology.add_internal_topic(InternalTopic(name=topic))
            topology.add_sink(sink, topic, *parents, key_serde=key_serde, value_serde=value_serde)
            topology.add_source(source, topic, key_serde=key_serde, value_serde=value_serde)

        return GraphNode(source, write)
