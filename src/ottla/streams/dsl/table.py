"""`KTable`: a table of the last value of every key, and its changes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.functions import with_key
from ottla.streams.dsl.graph import Graph, GraphNode
from ottla.streams.dsl.handle import Handle, key_value_specification, stateful, stateless
from ottla.streams.dsl.options import Grouped, Materialized, Suppressed, TableJoined
from ottla.streams.dsl.stream import KStream
from ottla.streams.dsl.table_join import join_tables
from ottla.streams.errors import TopologyError
from ottla.streams.operators.stateless import ToStream
from ottla.streams.operators.suppress import Suppress
from ottla.streams.operators.tables import TableFilter, TableMapValues, TableRepartitionMap
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreKind, StoreSpecification

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped_table import KGroupedTable

__all__ = ["KTable"]


class KTable(Handle):
    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        sources: Iterable[str],
        key_serde: Serde | None,
        value_serde: Serde | None,
        plan: Any,
    ) -> None:
        super().__init__(graph, node, name, sources, key_serde, value_serde)
        self.plan = plan

    def queryable_store_name(self) -> str | None:
        """The name of the store, if the table was given one."""
        name: str | None = getattr(self.plan, "queryable", None)
        return name

    def filter(
        self,
        predicate: Callable[[Any, Any], bool],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        """The rows for which a function of key and value is true; other rows become deletions."""
        return self._filter(predicate, materialized, named, keeps=True)

    def filter_not(
        self,
        predicate: Callable[[Any, Any], bool],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        return self._filter(predicate, materialized, named, keeps=False)

    def map_values(
        self, mapper: Callable[..., Any], materialized: Materialized | None = None, named: str | None = None
    ) -> KTable:
        """The function gets the value, or key and value."""
        store = self._burn_store_name(materialized, "KTABLE-MAPVALUES-")
        name = self.graph.name(named, "KTABLE-MAPVALUES-")
        value_serde = None if materialized is None else materialized.value_serde
        return self._derive(name, TableMapValues(self.plan, with_key(mapper), store), materialized, value_serde)

    def to_stream(self, mapper: Callable[[Any, Any], Any] | None = None, named: str | None = None) -> KStream:
        """The changes of the table as records; with a function of key and value, under new keys."""
        name = self.graph.name(named, "KTABLE-TOSTREAM-")
        node = stateless(name, ToStream)
        self.graph.add(self.node, node)
        stream = KStream(self.graph, node, name, self.sources, self.key_serde, self.value_serde)
        return stream if mapper is None else stream.select_key(mapper)

    def suppress(self, suppressed: Suppressed) -> KTable:
        """Holds back updates for a time, or until windows are closed."""
        if self.node.is_versioned:
            raise TopologyError("Versioned tables cannot be suppressed.")
        name = suppressed.name or self.graph.new_name("KTABLE-SUPPRESS-")
        wait_ms = _grace_of(self.node) if suppressed.wait_ms is None else suppressed.wait_ms
        if suppressed.name is None:
            store = self.graph.new_store_name("KTABLE-SUPPRESS-")
        else:
            store = f"{suppressed.name}-store"
        buffer = suppressed.buffer
        plan = Suppress(
            self.plan,
            store,
            wait_ms=wait_ms,
            is_final=suppressed.wait_ms is None,
            records_max=buffer.records_max,
            bytes_max=buffer.bytes_max,
            emits_early=buffer.emits_early,
        )
        specification = StoreSpecification(
            store, StoreKind.SUPPRESS, self.key_serde, self.value_serde, is_logged=buffer.is_logged
        )
        node = stateful(name, plan, specification=specification, is_versioned=False)
        self.graph.add(self.node, node)
        return KTable(self.graph, node, name, {self.name}, self.key_serde, self.value_serde, plan)

    def group_by(self, mapper: Callable[[Any, Any], tuple[Any, Any]], grouped: Grouped | None = None) -> KGroupedTable:
        """Groups rows by a new key; the function of key and value returns a pair of new key and new value."""
        from ottla.streams.dsl.grouped_table import KGroupedTable

        grouped = grouped or Grouped()
        name = self.graph.name(grouped.name, "KTABLE-SELECT-")
        uses_versions = self.node.has_versions
        node = stateless(name, functools.partial(TableRepartitionMap, mapper, uses_versions=uses_versions))
        self.graph.add(self.node, node)
        self.plan.send_old_values(force=True)
        return KGroupedTable(self.graph, node, name, self.sources, grouped)

    # Joins.

    def join(self, other: KTable, *arguments: Any, **options: Any) -> KTable:
        """With the same key: `join(table, joiner, materialized=None, named=None)`; with a foreign key:
        `join(table, foreign_key_extractor, joiner, table_joined=None, materialized=None)`."""
        return self._join(other, arguments, options, is_left=False, is_right=False)

    def left_join(self, other: KTable, *arguments: Any, **options: Any) -> KTable:
        """As `join`; rows of this table without a partner are joined with None."""
        return self._join(other, arguments, options, is_left=True, is_right=False)

    def outer_join(
        self,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        materialized: Materialized | None = None,
        named: str | None = None,
    ) -> KTable:
        return join_tables(self, other, joiner, materialized, named, is_left=True, is_right=True)

    def _join(
        self, other: KTable, arguments: tuple[Any, ...], options: dict[str, Any], *, is_left: bool, is_right: bool
    ) -> KTable:
        unknown = set(options) - {"materialized", "named", "table_joined"}
        if unknown or not arguments:
            raise TypeError(f"join() takes a table, functions, materialized, named and table_joined, not {unknown}")
        functions = [argument for argument in arguments if callable(argument)]
        for argument in arguments:
            if isinstance(argument, Materialized):
                options.setdefault("materialized", argument)
            elif isinstance(argument, TableJoined):
                options.setdefault("table_joined", argument)
        if len(functions) == 2:
            from ottla.streams.dsl.foreign_key import join_by_foreign_key

            joined = options.get("table_joined") or TableJoined(name=options.get("named"))
            return join_by_foreign_key(
                self, other, functions[0], functions[1], joined, options.get("materialized"), is_left=is_left
            )
        return join_tables(
            self,
            other,
            functions[0],
            options.get("materialized"),
            options.get("named"),
            is_left=is_left,
            is_right=is_right,
        )

    # Internals.

    def _filter(
        self,
        predicate: Callable[[Any, Any], bool],
        materialized: Materialized | None,
        named: str | None,
        *,
        keeps: bool,
    ) -> KTable:
        store = self._burn_store_name(materialized, "KTABLE-FILTER-")
        name = self.graph.name(named, "KTABLE-FILTER-")
        value_serde = self.value_serde
        if materialized is not None:
            value_serde = materialized.value_serde or self.value_serde
        return self._derive(name, TableFilter(self.plan, predicate, store, keeps=keeps), materialized, value_serde)

    def _burn_store_name(self, materialized: Materialized | None, prefix: str) -> str | None:
        """The user's name of the store, or None. Kafka Streams uses up a number for options without a name."""
        if materialized is not None and materialized.store_name is None:
            self.graph.new_store_name(prefix)
        return None if materialized is None else materialized.store_name

    def _derive(self, name: str, plan: Any, materialized: Materialized | None, value_serde: Serde | None) -> KTable:
        key_serde, specification, is_versioned = self.key_serde, None, None
        plan.uses_versions = self.node.has_versions
        if materialized is not None:
            key_serde = materialized.key_serde or self.key_serde
            is_versioned = materialized.is_versioned
            if plan.queryable is not None:
                materialized = materialized.with_key_serde(key_serde).with_value_serde(value_serde)
                specification = key_value_specification(plan.queryable, materialized)
        node = stateful(name, plan, specification=specification, is_versioned=is_versioned)
        self.graph.add(self.node, node)
        return KTable(self.graph, node, name, self.sources, key_serde, value_serde, plan)


def _grace_of(node: GraphNode) -> int:
    """How long after its end a window above this node can still change."""
    if node.grace_ms is not None:
        return node.grace_ms
    if not node.parents or node.name == "root":
        raise TopologyError("until_window_closes() needs a windowed aggregate before it.")
    return max(_grace_of(parent) for parent in node.parents)
