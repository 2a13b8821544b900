"""Builds joins with tables: stream with table, stream with global table, table with table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.graph import GraphNode
from ottla.streams.dsl.handle import key_value_specification, stateless
from ottla.streams.dsl.options import Joined, Materialized
from ottla.streams.errors import TopologyError
from ottla.streams.operators.table_joins import JoinKind, StreamTableJoin, TableJoinMerge, TableJoinSide
from ottla.streams.state.specification import StoreKind, StoreSpecification
from ottla.streams.topology.topology import Topology

if TYPE_CHECKING:
    from ottla.streams.dsl.global_table import GlobalKTable
    from ottla.streams.dsl.stream import KStream
    from ottla.streams.dsl.table import KTable

__all__ = ["join_stream_with_global", "join_stream_with_table", "join_tables"]


def join_stream_with_table(
    stream: KStream, table: KTable, joiner: Callable[[Any, Any, Any], Any], joined: Joined, *, is_left: bool
) -> KStream:
    from ottla.streams.dsl.stream import KStream

    if stream.needs_repartition:
        stream = stream.repartition_for_join(joined.name or stream.name, joined.key_serde, joined.value_serde)
    sources = stream.copartition_with(table)
    graph = stream.graph
    name = graph.name(joined.name, "KSTREAM-LEFTJOIN-" if is_left else "KSTREAM-JOIN-")
    buffer = None
    if joined.grace_ms is not None:
        if table.node.is_versioned is False:
            raise TopologyError(
                "A grace period of a join needs a versioned table; use Stores.versioned_key_value(...)."
            )
        buffer = StoreSpecification(
            f"{name}-Buffer",
            StoreKind.JOIN_BUFFER,
            joined.key_serde or stream.key_serde,
            joined.value_serde or stream.value_serde,
            retention_ms=joined.grace_ms,
        )
        _add_buffer(graph, buffer)
    view = table.plan.view()
    supplier = functools.partial(
        StreamTableJoin, view, joiner, is_left=is_left, buffer=None if buffer is None else buffer.name
    )

    def write(topology: Topology, parents: Sequence[str]) -> None:
        topology.add_processor(name, supplier, *parents)
        topology.connect_processor_and_state_stores(name, *view.stores)
        if buffer is not None:
            topology.connect_processor_and_state_stores(name, buffer.name)
            _check_history(topology, view.stores, buffer.retention_ms)

    node = GraphNode(name, write, tolerates_null_keys=is_left)
    graph.add(stream.node, node)
    return KStream(graph, node, name, sources, joined.key_serde or stream.key_serde, None)


def _add_buffer(graph: Any, buffer: StoreSpecification) -> None:
    def write(topology: Topology, parents: Sequence[str]) -> None:  # noqa: ARG001
        topology.add_state_store(buffer)

    graph.add(graph.root, GraphNode(buffer.name, write))


def _check_history(topology: Topology, stores: Sequence[str], grace_ms: int) -> None:
    for store in stores:
        specification = topology.stores[store]
        if specification.kind is not StoreKind.VERSIONED:
            raise TopologyError(
                "A grace period of a join needs a versioned table; use Stores.versioned_key_value(...)."
            )
        if grace_ms > specification.retention_ms:
            raise TopologyError(
                f"The history of store {store} ({specification.retention_ms} ms) must be at least as long as the grace "
                f"period of the join ({grace_ms} ms)."
            )


def join_stream_with_global(
    stream: KStream,
    table: GlobalKTable,
    selector: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any, Any], Any],
    named: str | None,
    *,
    is_left: bool,
) -> KStream:
    from ottla.streams.dsl.stream import KStream

    graph = stream.graph
    name = graph.name(named, "KSTREAM-LEFTJOIN-")
    supplier = functools.partial(StreamTableJoin, table.view(), joiner, key_of=selector, is_left=is_left)
    node = stateless(name, supplier, tolerates_null_keys=is_left)
    graph.add(stream.node, node)
    return KStream(
        graph, node, name, stream.sources, stream.key_serde, None, needs_repartition=stream.needs_repartition
    )


def join_tables(
    left: KTable,
    right: KTable,
    joiner: Callable[[Any, Any], Any],
    materialized: Materialized | None,
    named: str | None,
    *,
    is_left: bool,
    is_right: bool,
) -> KTable:
    from ottla.streams.dsl.table import KTable

    graph = left.graph
    if materialized is not None and materialized.store_name is None:
        materialized = Materialized(
            graph.new_store_name("KTABLE-MERGE-"),
            materialized.key_serde,
            materialized.value_serde,
            materialized.is_logged,
            materialized.log_config,
        )
    name = graph.name(named, "KTABLE-MERGE-")
    sources = left.copartition_with(right)
    if is_left:
        left.plan.send_old_values(force=True)
    if is_right:
        right.plan.send_old_values(force=True)
    kinds = {(False, False): (JoinKind.INNER, JoinKind.INNER), (True, False): (JoinKind.LEFT, JoinKind.RIGHT)}
    kind = kinds.get((is_left, is_right), (JoinKind.OUTER, JoinKind.OUTER))
    left_side = TableJoinSide(left.plan, right.plan, joiner, kind[0], is_left=True)
    right_side = TableJoinSide(right.plan, left.plan, joiner, kind[1], is_left=False)
    left_side.uses_versions, right_side.uses_versions = left.node.has_versions, right.node.has_versions
    names = (
        graph.name(named, "KTABLE-JOINTHIS-", "-join-this"),
        graph.name(named, "KTABLE-JOINOTHER-", "-join-other"),
    )
    specification = None
    key_serde, value_serde, queryable = left.key_serde, None, None
    if materialized is not None:
        materialized = materialized.with_key_serde(materialized.key_serde or left.key_serde)
        assert materialized.store_name is not None
        specification = key_value_specification(materialized.store_name, materialized)
        key_serde, value_serde, queryable = materialized.key_serde, materialized.value_serde, specification.name
    merge = TableJoinMerge(left_side, right_side, queryable)
    views = (left.plan.view(), right.plan.view())

    def write(topology: Topology, parents: Sequence[str]) -> None:  # noqa: ARG001
        topology.add_processor(names[0], left_side, left.name)
        topology.add_processor(names[1], right_side, right.name)
        topology.add_processor(name, merge, *names)
        topology.connect_processor_and_state_stores(names[0], *views[1].stores)
        topology.connect_processor_and_state_stores(names[1], *views[0].stores)
        if specification is not None:
            topology.add_state_store(specification, name)

    node = GraphNode(name, write, is_versioned=materialized is not None and materialized.is_versioned)
    graph.add(left.node, node)
    graph.add(right.node, node)
    return KTable(graph, node, name, sources, key_serde, value_serde, merge)
