"""`KStream`: a stream of records. Every method adds an operator to the graph; nothing runs yet."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.functions import joiner_with_key, with_key
from ottla.streams.dsl.graph import Graph, GraphNode, RepartitionNode
from ottla.streams.dsl.handle import Handle, key_value_specification, stateful, stateless
from ottla.streams.dsl.options import (
    Branched,
    Grouped,
    Joined,
    Materialized,
    Printed,
    Produced,
    Repartitioned,
    StreamJoined,
)
from ottla.streams.dsl.stream_join import join_streams
from ottla.streams.dsl.table_join import join_stream_with_global, join_stream_with_table
from ottla.streams.dsl.windows import JoinWindows
from ottla.streams.operators import stateless as operators
from ottla.streams.operators.tables import TableSource
from ottla.streams.serdes import Serde
from ottla.streams.topology.topology import Topology

if TYPE_CHECKING:
    from ottla.streams.dsl.branched import BranchedKStream
    from ottla.streams.dsl.global_table import GlobalKTable
    from ottla.streams.dsl.grouped import KGroupedStream
    from ottla.streams.dsl.table import KTable

__all__ = ["KStream"]


class KStream(Handle):
    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        sources: Iterable[str],
        key_serde: Serde | None,
        value_serde: Serde | None,
        *,
        needs_repartition: bool = False,
    ) -> None:
        super().__init__(graph, node, name, sources, key_serde, value_serde)
        # The key may have changed: records are not in the partition of their key.
        self.needs_repartition = needs_repartition
        self._repartition: RepartitionNode | None = None

    # Stateless operators.

    def filter(self, predicate: Callable[[Any, Any], bool], named: str | None = None) -> KStream:
        """The records for which a function of key and value is true."""
        return self._same(named, "KSTREAM-FILTER-", functools.partial(operators.Filter, predicate))

    def filter_not(self, predicate: Callable[[Any, Any], bool], named: str | None = None) -> KStream:
        return self._same(named, "KSTREAM-FILTER-", functools.partial(operators.Filter, predicate, keeps=False))

    def select_key(self, mapper: Callable[[Any, Any], Any], named: str | None = None) -> KStream:
        return self._next(
            named,
            "KSTREAM-KEY-SELECT-",
            functools.partial(operators.SelectKey, mapper),
            value_serde=self.value_serde,
            changes_key=True,
        )

    def map(self, mapper: Callable[[Any, Any], tuple[Any, Any]], named: str | None = None) -> KStream:
        """The function gets key and value and returns a pair of both."""
        return self._next(named, "KSTREAM-MAP-", functools.partial(operators.Map, mapper), changes_key=True)

    def map_values(self, mapper: Callable[..., Any], named: str | None = None) -> KStream:
        """The function gets the value, or key and value."""
        return self._next(
            named,
            "KSTREAM-MAPVALUES-",
            functools.partial(operators.MapValues, with_key(mapper)),
            key_serde=self.key_serde,
            changes_value=True,
        )

    def flat_map(self, mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]], named: str | None = None) -> KStream:
        return self._next(named, "KSTREAM-FLATMAP-", functools.partial(operators.FlatMap, mapper), changes_key=True)

    def flat_map_values(self, mapper: Callable[..., Iterable[Any]], named: str | None = None) -> KStream:
        """The function gets the value, or key and value, and returns any number of values."""
        return self._next(
            named,
            "KSTREAM-FLATMAPVALUES-",
            functools.partial(operators.FlatMapValues, with_key(mapper)),
            key_serde=self.key_serde,
            changes_value=True,
        )

    def peek(self, action: Callable[[Any, Any], object], named: str | None = None) -> KStream:
        return self._same(named, "KSTREAM-PEEK-", functools.partial(operators.Peek, action))

    def foreach(self, action: Callable[[Any, Any], object], named: str | None = None) -> None:
        self._same(named, "KSTREAM-FOREACH-", functools.partial(operators.Foreach, action))

    def print(self, printed: Printed | None = None) -> None:
        printed = printed or Printed.to_sys_out()
        label = printed.label or self.name
        supplier = functools.partial(operators.Print, label, printed.mapper, printed.write)
        self._same(printed.name, "KSTREAM-PRINTER-", supplier)

    def split(self, named: str | None = None) -> BranchedKStream:
        """Branches by predicates: `split().branch(...).default_branch()`."""
        from ottla.streams.dsl.branched import BranchedKStream

        return BranchedKStream(self, named)

    def branch(self, *predicates: Callable[[Any, Any], bool]) -> list[KStream]:
        """One stream for each predicate; a record goes to the first that is true, or nowhere."""
        branches = self.split()
        for predicate in predicates:
            branches.branch(predicate, Branched())
        return list(branches.no_default_branch().values())

    def merge(self, other: KStream, named: str | None = None) -> KStream:
        name = self.graph.name(named, "KSTREAM-MERGE-")
        node = stateless(name, operators.PassThrough, is_merge=True)
        self.graph.add([self.node, other.node], node)
        needs_repartition = self.needs_repartition or other.needs_repartition
        sources = self.sources | other.sources
        return KStream(self.graph, node, name, sources, None, None, needs_repartition=needs_repartition)

    # Processor API.

    def process(self, supplier: Callable[[], Any], *stores: str, named: str | None = None) -> KStream:
        """A processor of the user, with the stores that it needs."""
        name = named or self.graph.new_name("KSTREAM-PROCESSOR-")
        node = stateful(name, supplier, stores=stores)
        self.graph.add(self.node, node)
        return KStream(self.graph, node, name, self.sources, None, None, needs_repartition=True)

    def process_values(self, supplier: Callable[[], Any], *stores: str, named: str | None = None) -> KStream:
        """A processor of the user that does not change keys."""
        name = named or self.graph.new_name("KSTREAM-PROCESSVALUES-")
        node = stateful(name, supplier, stores=stores)
        self.graph.add(self.node, node)
        return KStream(
            self.graph, node, name, self.sources, self.key_serde, None, needs_repartition=self.needs_repartition
        )

    # Topics and tables.

    def to(self, topic: str | Callable[[Any, Any, Any], str], produced: Produced | None = None) -> None:
        """Writes to a topic, or to the topic that a function of key, value and record metadata returns."""
        produced = produced or Produced()
        name = self.graph.name(produced.name, "KSTREAM-SINK-")
        key_serde = produced.key_serde or self.key_serde
        value_serde = produced.value_serde or self.value_serde

        def write(topology: Topology, parents: Sequence[str]) -> None:
            topology.add_sink(
                name,
                topic,
                *parents,
                key_serde=key_serde,
                value_serde=value_serde,
                partitioner=produced.partitioner,
            )

        self.graph.add(self.node, GraphNode(name, write))

    def repartition(self, repartitioned: Repartitioned | None = None) -> KStream:
        """Writes to a topic of the application and reads it again: records get into the partition of their key."""
        repartitioned = repartitioned or Repartitioned()
        prefix = repartitioned.name or self.graph.new_name("KSTREAM-REPARTITION-")
        key_serde = repartitioned.key_serde or self.key_serde
        value_serde = repartitioned.value_serde or self.value_serde
        node = self.graph.new_repartition(
            prefix,
            key_serde,
            value_serde,
            partitions=repartitioned.partitions,
            partitioner=repartitioned.partitioner,
            may_merge=False,
        )
        self.graph.add(self.node, node)
        return KStream(self.graph, node, node.name, {node.name}, key_serde, value_serde)

    def to_table(self, materialized: Materialized | None = None, named: str | None = None) -> KTable:
        """The table of the last value of every key."""
        from ottla.streams.dsl.table import KTable

        materialized = materialized or Materialized()
        name = self.graph.name(named, "KSTREAM-TOTABLE-")
        store = materialized.store_name or self.graph.new_store_name("KSTREAM-TOTABLE-")
        materialized = materialized.with_key_serde(materialized.key_serde or self.key_serde).with_value_serde(
            materialized.value_serde or self.value_serde
        )
        parent, sources = self.node, self.sources
        if self.needs_repartition:
            parent = self.graph.new_repartition(name, materialized.key_serde, materialized.value_serde)
            self.graph.add(self.node, parent)
            sources = frozenset({parent.name})
        plan = TableSource(store, materialized.store_name)
        specification = key_value_specification(store, materialized)

        def write(topology: Topology, parents: Sequence[str]) -> None:
            topology.add_processor(name, plan, *parents)
            if plan.is_materialized:
                topology.add_state_store(specification, name)

        node = GraphNode(name, write, is_versioned=materialized.is_versioned)
        self.graph.add(parent, node)
        return KTable(self.graph, node, name, sources, materialized.key_serde, materialized.value_serde, plan)

    def group_by(self, mapper: Callable[[Any, Any], Any], grouped: Grouped | None = None) -> KGroupedStream:
        """Groups by a new key, which a function of key and value gives."""
        from ottla.streams.dsl.grouped import KGroupedStream

        grouped = grouped or Grouped(None, self.value_serde)
        name = self.graph.name(grouped.name, "KSTREAM-KEY-SELECT-")
        node = stateless(name, functools.partial(operators.SelectKey, mapper), changes_key=True)
        self.graph.add(self.node, node)
        return KGroupedStream(self.graph, node, name, self.sources, grouped, needs_repartition=True)

    def group_by_key(self, grouped: Grouped | None = None) -> KGroupedStream:
        from ottla.streams.dsl.grouped import KGroupedStream

        grouped = grouped or Grouped(self.key_serde, self.value_serde)
        return KGroupedStream(
            self.graph, self.node, self.name, self.sources, grouped, needs_repartition=self.needs_repartition
        )

    # Joins.

    def join(self, other: Any, joiner: Any, *arguments: Any) -> KStream:
        """With a stream: `join(stream, joiner, windows[, StreamJoined])`; a table: `join(table, joiner[, Joined])`;
        a global table: `join(global_table, key_selector, joiner[, name])`."""
        return self._join(other, joiner, arguments, is_left=False)

    def left_join(self, other: Any, joiner: Any, *arguments: Any) -> KStream:
        """As `join`; records without a partner are joined with None."""
        return self._join(other, joiner, arguments, is_left=True)

    def outer_join(
        self, other: KStream, joiner: Callable[..., Any], windows: JoinWindows, joined: StreamJoined | None = None
    ) -> KStream:
        return join_streams(
            self, other, joiner_with_key(joiner), windows, joined or StreamJoined(), is_left=True, is_right=True
        )

    def _join(self, other: Any, joiner: Any, arguments: Sequence[Any], *, is_left: bool) -> KStream:
        from ottla.streams.dsl.global_table import GlobalKTable

        if isinstance(other, KStream):
            windows, *rest = arguments
            joined = rest[0] if rest else StreamJoined()
            return join_streams(self, other, joiner_with_key(joiner), windows, joined, is_left=is_left, is_right=False)
        if isinstance(other, GlobalKTable):
            return self._join_global(other, joiner, arguments, is_left=is_left)
        return join_stream_with_table(
            self, other, joiner_with_key(joiner), arguments[0] if arguments else Joined(), is_left=is_left
        )

    def _join_global(
        self, other: GlobalKTable, selector: Callable[[Any, Any], Any], arguments: Sequence[Any], *, is_left: bool
    ) -> KStream:
        joiner, *rest = arguments
        named = rest[0] if rest else None
        return join_stream_with_global(self, other, selector, joiner_with_key(joiner), named, is_left=is_left)

    def repartition_for_join(self, prefix: str, key_serde: Serde | None, value_serde: Serde | None) -> KStream:
        """The stream behind a repartition topic. Joins of one stream under its own name share the topic."""
        key_serde, value_serde = key_serde or self.key_serde, value_serde or self.value_serde
        node = self.graph.new_repartition(prefix, key_serde, value_serde)
        if self._repartition is None or prefix != self.name:
            self._repartition = node
            self.graph.add(self.node, node)
        return KStream(self.graph, self._repartition, node.name, {node.name}, key_serde, value_serde)

    # Internals.

    def _same(self, named: str | None, prefix: str, supplier: Callable[[], Any]) -> KStream:
        """An operator that changes neither key nor value."""
        return self._next(named, prefix, supplier, key_serde=self.key_serde, value_serde=self.value_serde)

    def _next(
        self,
        named: str | None,
        prefix: str,
        supplier: Callable[[], Any],
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        changes_key: bool = False,
        changes_value: bool = False,
    ) -> KStream:
        name = self.graph.name(named, prefix)
        node = stateless(name, supplier, changes_key=changes_key, changes_value=changes_value)
        self.graph.add(self.node, node)
        return KStream(
            self.graph,
            node,
            name,
            self.sources,
            key_serde,
            value_serde,
            needs_repartition=self.needs_repartition or changes_key,
        )
