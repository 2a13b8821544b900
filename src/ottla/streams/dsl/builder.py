"""`StreamsBuilder`: where a topology begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.streams.dsl.global_table import GlobalKTable
from ottla.streams.dsl.graph import Graph, GraphNode
from ottla.streams.dsl.handle import key_value_specification
from ottla.streams.dsl.options import Consumed, Materialized
from ottla.streams.dsl.stream import KStream
from ottla.streams.dsl.table import KTable
from ottla.streams.errors import TopologyError
from ottla.streams.operators.tables import TableSource
from ottla.streams.state.specification import StoreSpecification
from ottla.streams.topology.topology import Topology, check_name

__all__ = ["StreamsBuilder"]

_OPTIMIZATIONS = frozenset({"reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join"})


class StreamSourceNode(GraphNode):
    """The source of a stream."""

    def __init__(self, name: str, topics: tuple[str, ...], pattern: re.Pattern[str] | None, consumed: Consumed) -> None:
        super().__init__(name)
        self.topics = topics
        self.pattern = pattern
        self.consumed = consumed
        self.offset_reset = consumed.offset_reset

    def write(self, topology: Topology) -> None:
        topology.add_source(
            self.name,
            *self.topics,
            pattern=self.pattern,
            key_serde=self.consumed.key_serde,
            value_serde=self.consumed.value_serde,
            timestamp_extractor=self.consumed.timestamp_extractor,
            offset_reset=self.consumed.offset_reset,
        )


class TableSourceNode(GraphNode):
    """The source of a table: a source, a processor, and a store if the table needs one."""

    def __init__(
        self, name: str, source: str, topic: str, consumed: Consumed, plan: TableSource, store: StoreSpecification
    ) -> None:
        super().__init__(name)
        self.source = source
        self.topic = topic
        self.consumed = consumed
        self.plan = plan
        self.store = store
        # The topic of the table serves as the changelog of its store.
        self.reuses_topic = False

    def write(self, topology: Topology) -> None:
        topology.add_source(
            self.source,
            self.topic,
            key_serde=self.consumed.key_serde,
            value_serde=self.consumed.value_serde,
            timestamp_extractor=self.consumed.timestamp_extractor,
            offset_reset=self.consumed.offset_reset,
        )
        topology.add_processor(self.name, self.plan, self.source)
        if self.plan.is_materialized:
            topology.add_state_store(self.store, self.name)
            if self.reuses_topic:
                topology.store_source_topics[self.store.name] = self.topic


class StreamsBuilder:
    """Builds topologies with streams and tables; the methods are those of Kafka Streams in snake case."""

    def __init__(self) -> None:
        self._graph = Graph()

    def stream(self, topics: str | Iterable[str] | re.Pattern[str], consumed: Consumed | None = None) -> KStream:
        """A stream of the records of a topic, of several topics, or of all topics that match a pattern."""
        consumed = consumed or Consumed()
        name = self._graph.name(consumed.name, "KSTREAM-SOURCE-")
        pattern = topics if isinstance(topics, re.Pattern) else None
        names: tuple[str, ...] = () if pattern else _topics(topics)  # type: ignore[arg-type]
        node = StreamSourceNode(name, names, pattern, consumed)
        self._graph.add(self._graph.root, node)
        return KStream(self._graph, node, name, {name}, consumed.key_serde, consumed.value_serde)

    def table(self, topic: str, consumed: Consumed | None = None, materialized: Materialized | None = None) -> KTable:
        """A table of the last value of every key of a topic."""
        consumed = consumed or Consumed()
        materialized = _with_serdes(materialized, consumed)
        consumed = _consumed_as(consumed, materialized)
        graph = self._graph
        store = materialized.store_name or graph.new_store_name(f"{check_name(topic, 'The topic')}-")
        source = graph.name(consumed.name, "KSTREAM-SOURCE-", "-source")
        name = graph.name(consumed.name, "KTABLE-SOURCE-")
        plan = TableSource(store, materialized.store_name)
        node = TableSourceNode(name, source, topic, consumed, plan, key_value_specification(store, materialized))
        node.is_versioned = materialized.is_versioned
        graph.table_sources.append(node)
        graph.add(graph.root, node)
        return KTable(graph, node, name, {source}, consumed.key_serde, consumed.value_serde, plan)

    def global_table(
        self, topic: str, consumed: Consumed | None = None, materialized: Materialized | None = None
    ) -> GlobalKTable:
        """A table that every task holds completely."""
        consumed = consumed or Consumed()
        materialized = _with_serdes(materialized, consumed)
        consumed = _consumed_as(consumed, materialized)
        if materialized.is_versioned:
            raise TopologyError("Global tables cannot be versioned.")
        graph = self._graph
        store = materialized.store_name or graph.new_store_name(f"{check_name(topic, 'The topic')}-")
        specification = key_value_specification(store, materialized.with_logging_disabled())
        source = graph.name(consumed.name, "KSTREAM-SOURCE-", "-source")
        name = graph.name(consumed.name, "KTABLE-SOURCE-")
        self._add_global(specification, source, topic, name, TableSource(store, store), consumed)
        return GlobalKTable(store, materialized.store_name)

    def add_state_store(self, specification: StoreSpecification) -> StreamsBuilder:
        """A store for `process` and `process_values`, which name it."""

        def write(topology: Topology, parents: Sequence[str]) -> None:  # noqa: ARG001
            topology.add_state_store(specification)

        self._graph.add(self._graph.root, GraphNode(specification.name, write))
        return self

    def add_global_store(
        self, specification: StoreSpecification, topic: str, consumed: Consumed, supplier: Callable[[], Any]
    ) -> StreamsBuilder:
        """A store that every task holds completely, filled by a processor of the user."""
        source = self._graph.name(consumed.name, "KSTREAM-SOURCE-", "-source")
        name = self._graph.name(consumed.name, "KTABLE-SOURCE-")
        self._add_global(specification.with_logging_disabled(), source, topic, name, supplier, consumed)
        return self

    def build(self, properties: Mapping[str, Any] | None = None) -> Topology:
        """The topology. `topology.optimization` in the properties is none (default), all, or a list of names."""
        topology = self._graph.build(_optimizations(str((properties or {}).get("topology.optimization", "none"))))
        topology.check()
        return topology

    def _add_global(
        self,
        specification: StoreSpecification,
        source: str,
        topic: str,
        name: str,
        supplier: Callable[[], Any],
        consumed: Consumed,
    ) -> None:
        def write(topology: Topology, parents: Sequence[str]) -> None:  # noqa: ARG001
            topology.add_global_store(
                specification,
                source,
                topic,
                name,
                supplier,
                key_serde=consumed.key_serde,
                value_serde=consumed.value_serde,
                timestamp_extractor=consumed.timestamp_extractor,
            )

        self._graph.add(self._graph.root, GraphNode(name, write))


def _topics(topics: str | Iterable[str]) -> tuple[str, ...]:
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names:
        raise TopologyError("A stream needs at least one topic.")
    for name in names:
        check_name(name, "The topic")
    return names


def _with_serdes(materialized: Materialized | None, consumed: Consumed) -> Materialized:
    materialized = materialized or Materialized()
    return materialized.with_key_serde(materialized.key_serde or consumed.key_serde).with_value_serde(
        materialized.value_serde or consumed.value_serde
    )


def _consumed_as(consumed: Consumed, materialized: Materialized) -> Consumed:
    return Consumed(
        consumed.key_serde or materialized.key_serde,
        consumed.value_serde or materialized.value_serde,
        consumed.timestamp_extractor,
        consumed.offset_reset,
        consumed.name,
    )


def _optimizations(text: str) -> frozenset[str]:
    if text == "all":
        return _OPTIMIZATIONS
    if text == "none":
        return frozenset()
    names = {name.strip() for name in text.split(",")}
    if names - _OPTIMIZATIONS:
        raise TopologyError(
            f"topology.optimization has no {sorted(names - _OPTIMIZATIONS)[0]!r}; choose none, all, or some of "
            f"{', '.join(sorted(_OPTIMIZATIONS))}."
        )
    return frozenset(names)
