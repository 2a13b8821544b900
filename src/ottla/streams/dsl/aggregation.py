"""Builds aggregates of grouped streams, with a repartition topic where the key has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.graph import Graph, GraphNode, RepartitionNode
from ottla.streams.dsl.handle import check_no_time_to_live, stateful
from ottla.streams.dsl.options import Materialized
from ottla.streams.serdes import Serde, Serdes, SessionWindowedSerde, TimeWindowedSerde
from ottla.streams.state.specification import StoreKind, StoreSpecification

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import KGroupedStream
    from ottla.streams.dsl.table import KTable

__all__ = ["AggregateBuilder", "count_one", "count_store", "merge_counts", "named_store", "reducing", "zero"]


def zero() -> int:
    return 0


def count_one(key: Any, value: Any, aggregate: int) -> int:  # noqa: ARG001
    return aggregate + 1


def merge_counts(key: Any, left: int, right: int) -> int:  # noqa: ARG001
    return left + right


class reducing:  # noqa: N801
    """A reducer as an aggregator and as a merger of sessions: the first value is the aggregate."""

    def __init__(self, reducer: Any) -> None:
        self.reducer = reducer

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:  # noqa: ARG002
        return value if aggregate is None else self.reducer(aggregate, value)

    def merge(self, key: Any, aggregate: Any, other: Any) -> Any:  # noqa: ARG002
        return other if aggregate is None else self.reducer(aggregate, other)


def nothing() -> None:
    return None


def named_store(graph: Graph, materialized: Materialized | None, prefix: str) -> tuple[str, Materialized]:
    """The name of the store: the user's, or a generated name."""
    materialized = materialized or Materialized()
    return materialized.store_name or graph.new_store_name(prefix), materialized


def count_store(
    graph: Graph, materialized: Materialized | None, *, skips_number: bool = True
) -> tuple[str, Materialized]:
    """The store of a count. Kafka Streams skips a number of generated names if options without a name are given."""
    if skips_number and materialized is not None and materialized.store_name is None:
        graph.new_store_name("KSTREAM-AGGREGATE-")
    store, materialized = named_store(graph, materialized, "KSTREAM-AGGREGATE-")
    return store, materialized.with_value_serde(materialized.value_serde or Serdes.long())


class AggregateBuilder:
    """Adds the aggregates of a grouped stream. Aggregates with one named repartition topic share the topic."""

    def __init__(self, stream: KGroupedStream) -> None:
        self._stream = stream
        self._repartition: RepartitionNode | None = None

    def build(
        self,
        name: str,
        specification: StoreSpecification,
        plan: Any,
        key_serde: Serde | None,
        value_serde: Serde | None,
        *,
        is_versioned: bool = False,
    ) -> KTable:
        from ottla.streams.dsl.table import KTable

        stream = self._stream
        parent: GraphNode = stream.node
        sources = stream.sources
        if stream.needs_repartition:
            topic = stream.grouped.name
            node = stream.graph.new_repartition(topic or specification.name, stream.key_serde, stream.value_serde)
            source = node.name
            if self._repartition is None or topic is None:
                self._repartition = node
            stream.graph.add(parent, self._repartition)
            parent, sources = self._repartition, frozenset({source})
        node_ = stateful(name, plan, specification=specification, grace_ms=plan.grace_ms, is_versioned=is_versioned)
        stream.graph.add(parent, node_)
        return KTable(stream.graph, node_, name, sources, key_serde, value_serde, plan)


def window_specification(store: str, materialized: Materialized, size_ms: int, grace_ms: int) -> StoreSpecification:
    check_no_time_to_live(store, materialized)
    if materialized.specification is not None:
        kind = StoreKind.TIMESTAMPED_WINDOW
        return replace(
            materialized.specification,
            kind=kind,
            key_serde=materialized.key_serde,
            value_serde=materialized.value_serde,
            is_cached=materialized.is_cached,
        )
    retention = size_ms + grace_ms if materialized.retention_ms is None else materialized.retention_ms
    return StoreSpecification(
        store,
        StoreKind.TIMESTAMPED_WINDOW,
        materialized.key_serde,
        materialized.value_serde,
        is_logged=materialized.is_logged,
        log_config=dict(materialized.log_config),
        retention_ms=retention,
        window_size_ms=size_ms,
        is_persistent=materialized.is_persistent,
        is_cached=materialized.is_cached,
    )


def session_specification(store: str, materialized: Materialized, gap_ms: int, grace_ms: int) -> StoreSpecification:
    check_no_time_to_live(store, materialized)
    if materialized.specification is not None:
        return replace(
            materialized.specification,
            key_serde=materialized.key_serde,
            value_serde=materialized.value_serde,
            is_cached=materialized.is_cached,
        )
    retention = gap_ms + grace_ms if materialized.retention_ms is None else materialized.retention_ms
    return StoreSpecification(
        store,
        StoreKind.SESSION,
        materialized.key_serde,
        materialized.value_serde,
        is_logged=materialized.is_logged,
        log_config=dict(materialized.log_config),
        retention_ms=retention,
        is_persistent=materialized.is_persistent,
        is_cached=materialized.is_cached,
    )


def time_windowed(serde: Serde | None, size_ms: int) -> Serde:
    return TimeWindowedSerde(serde, size_ms)


def session_windowed(serde: Serde | None) -> Serde:
    return SessionWindowedSerde(serde)
