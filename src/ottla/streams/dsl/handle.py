"""What handles of streams and tables share, and how stores of the DSL are specified."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.streams.dsl.graph import Graph, GraphNode
from ottla.streams.dsl.options import Materialized
from ottla.streams.errors import TopologyError
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreKind, StoreSpecification
from ottla.streams.topology.topology import Topology

__all__ = ["Handle", "check_no_time_to_live", "key_value_specification", "stateful", "stateless"]


class Handle:
    """A place in the graph: its node, its serdes, and the sources of its sub-topology."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        sources: Iterable[str],
        key_serde: Serde | None,
        value_serde: Serde | None,
    ) -> None:
        self.graph = graph
        self.node = node
        self.name = name
        self.sources = frozenset(sources)
        self.key_serde = key_serde
        self.value_serde = value_serde

    def copartition_with(self, *others: Handle) -> set[str]:
        return self.graph.copartition(self.sources.union(*(other.sources for other in others)))


def stateless(name: str, supplier: Callable[[], Any], **flags: Any) -> GraphNode:
    """A node with one processor and no store."""
    return GraphNode(name, functools.partial(_write_processor, name, supplier), **flags)


def stateful(
    name: str,
    supplier: Callable[[], Any],
    *,
    specification: StoreSpecification | None = None,
    stores: Sequence[str] = (),
    **flags: Any,
) -> GraphNode:
    """A node with one processor that uses stores: a new store, or existing stores."""

    def write(topology: Topology, parents: Sequence[str]) -> None:
        topology.add_processor(name, supplier, *parents)
        if stores:
            topology.connect_processor_and_state_stores(name, *stores)
        if specification is not None:
            topology.add_state_store(specification, name)

    return GraphNode(name, write, **flags)


def key_value_specification(store: str, materialized: Materialized) -> StoreSpecification:
    """The store of a table: timestamped, unless the user gave a versioned one."""
    if materialized.specification is not None:
        specification = materialized.specification
        specification.key_serde = materialized.key_serde
        specification.value_serde = materialized.value_serde
        if specification.kind is StoreKind.KEY_VALUE:
            specification.kind = StoreKind.TIMESTAMPED
        if materialized.time_to_live_ms:
            if specification.kind is not StoreKind.TIMESTAMPED:
                check_no_time_to_live(specification.name, materialized)
            specification.time_to_live_ms = materialized.time_to_live_ms
        specification.is_cached = materialized.is_cached and specification.kind is not StoreKind.VERSIONED
        return specification
    return StoreSpecification(
        store,
        StoreKind.TIMESTAMPED,
        materialized.key_serde,
        materialized.value_serde,
        is_logged=materialized.is_logged,
        log_config=dict(materialized.log_config),
        is_persistent=materialized.is_persistent,
        is_cached=materialized.is_cached,
        time_to_live_ms=materialized.time_to_live_ms,
    )


def check_no_time_to_live(store: str, materialized: Materialized) -> None:
    """For stores with a retention. Raises TopologyError."""
    if materialized.time_to_live_ms:
        raise TopologyError(
            f"Store {store} has windows or versions, and no time to live: set its retention with with_retention(...)."
        )


def _write_processor(name: str, supplier: Callable[[], Any], topology: Topology, parents: Sequence[str]) -> None:
    topology.add_processor(name, supplier, *parents)
