"""A topology: sources, processors, sinks and stores as plain values, checked while it is built.

A topology needs neither a broker nor Spark. Nodes are kept in the order in which they were added, because the numbers
of sub-topologies and the order in which a node forwards to its children depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.streams.errors import TopologyError
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreSpecification

__all__ = ["InternalTopic", "ProcessorNode", "SinkNode", "SourceNode", "TimestampExtractor", "Topology"]

TimestampExtractor = Callable[[Any, int], int]
TopicName = str | Callable[[Any, Any, Any], str]

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._\-]{1,249}\Z")


@dataclass(slots=True)
class SourceNode:
    name: str
    topics: tuple[str, ...]
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    pattern: re.Pattern[str] | None = None
    predecessors: tuple[str, ...] = ()


@dataclass(slots=True)
class ProcessorNode:
    name: str
    supplier: Callable[[], Any]
    predecessors: tuple[str, ...]
    stores: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SinkNode:
    name: str
    topic: TopicName
    predecessors: tuple[str, ...]
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    partitioner: Callable[[str, Any, Any, int], int | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A repartition topic that the application creates. Without a number it has as many partitions as its input."""

    name: str
    partitions: int | None = None
    # The number is fixed by the application and must be equal within a co-partitioned group.
    enforces_partitions: bool = False


Node = SourceNode | ProcessorNode | SinkNode


class Topology:
    """The graph of a streams application. Build it with `StreamsBuilder`, or node by node."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreSpecification] = {}
        self.global_stores: dict[str, StoreSpecification] = {}
        self.internal_topics: dict[str, InternalTopic] = {}
        self.copartitioned: list[frozenset[str]] = []
        # Stores whose changelog is the source topic of their table.
        self.store_source_topics: dict[str, str] = {}
        self._roots: dict[str, str] = {}
        self._topics_of_sources: dict[str, str] = {}
        self._global_sources: set[str] = set()

    # Building.

    def add_source(
        self,
        name: str,
        *topics: str,
        pattern: re.Pattern[str] | None = None,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: str | None = None,
    ) -> Topology:
        self._check_new(name)
        if not topics and pattern is None:
            raise TopologyError(f"Source {name} has no topic; give at least one.")
        for topic in topics:
            if topic in self._topics_of_sources:
                raise TopologyError(
                    f"Topic {topic} is already read by source {self._topics_of_sources[topic]}; a topic has one source."
                )
        if offset_reset not in (None, "earliest", "latest", "none"):
            raise TopologyError(f"Source {name}: offset reset {offset_reset!r} is not earliest, latest or none.")
        self._topics_of_sources.update(dict.fromkeys(topics, name))
        self.nodes[name] = SourceNode(name, topics, key_serde, value_serde, timestamp_extractor, offset_reset, pattern)
        self._roots[name] = name
        return self

    def add_processor(self, name: str, supplier: Callable[[], Any], *parents: str) -> Topology:
        self._check_new(name)
        self._check_parents(name, parents)
        if not callable(supplier):
            raise TopologyError(
                f"Processor {name} needs a function or class that creates processors, not {supplier!r}."
            )
        self.nodes[name] = ProcessorNode(name, supplier, tuple(parents))
        self._roots[name] = name
        self._unite(name, parents)
        for specification in getattr(supplier, "stores", tuple)():
            self.add_state_store(specification, name)
        return self

    def add_sink(
        self,
        name: str,
        topic: TopicName,
        *parents: str,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        partitioner: Callable[[str, Any, Any, int], int | None] | None = None,
    ) -> Topology:
        self._check_new(name)
        self._check_parents(name, parents)
        self.nodes[name] = SinkNode(name, topic, tuple(parents), key_serde, value_serde, partitioner)
        self._roots[name] = name
        self._unite(name, parents)
        return self

    def add_state_store(self, specification: StoreSpecification, *processors: str) -> Topology:
        existing = self.stores.get(specification.name)
        if specification.name in self.global_stores or (existing is not None and existing is not specification):
            raise TopologyError(f"There is already a store {specification.name}; store names are unique.")
        self.stores[specification.name] = specification
        for processor in processors:
            self.connect_processor_and_state_stores(processor, specification.name)
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        node = self.nodes.get(processor)
        if not isinstance(node, ProcessorNode):
            raise TopologyError(f"There is no processor {processor} to connect with a store; add it first.")
        for store in stores:
            if store in self.global_stores:
                raise TopologyError(f"Store {store} is global: every processor may use it without a connection.")
            if store not in self.stores:
                raise TopologyError(f"There is no store {store} for processor {processor}; add_state_store first.")
            if store in node.stores:
                continue
            sharing = [
                candidate.name
                for candidate in self.nodes.values()
                if isinstance(candidate, ProcessorNode) and store in candidate.stores
            ]
            self._unite(processor, sharing[:1])
            node.stores.append(store)
        return self

    def add_global_store(
        self,
        specification: StoreSpecification,
        source: str,
        topic: str,
        processor: str,
        supplier: Callable[[], Any],
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """A store that every task holds completely, filled from a topic by a processor of its own."""
        if specification.name in self.stores or specification.name in self.global_stores:
            raise TopologyError(f"There is already a store {specification.name}; store names are unique.")
        self.add_source(
            source, topic, key_serde=key_serde, value_serde=value_serde, timestamp_extractor=timestamp_extractor
        )
        self._global_sources.add(source)
        self.global_stores[specification.name] = specification
        self.store_source_topics[specification.name] = topic
        self.nodes[processor] = ProcessorNode(processor, supplier, (source,), [specification.name])
        self._roots[processor] = processor
        self._unite(processor, (source,))
        return self

    def add_internal_topic(self, topic: InternalTopic) -> None:
        self.internal_topics[topic.name] = topic

    def copartition_sources(self, sources: Iterable[str]) -> None:
        """These sources must have equal numbers of partitions."""
        self.copartitioned.append(frozenset(sources))

    # Reading.

    @property
    def global_sources(self) -> frozenset[str]:
        return frozenset(self._global_sources)

    def children(self, name: str) -> list[str]:
        """The nodes that a node forwards to, in order."""
        return [node.name for node in self.nodes.values() if name in node.predecessors]

    def node_groups(self) -> dict[int, list[str]]:
        """Sub-topologies by number: nodes that are connected, directly or by a store."""
        numbers: dict[str, int] = {}
        groups: dict[int, list[str]] = {}
        for name in self.nodes:
            number = numbers.setdefault(self._root(name), len(numbers))
            groups.setdefault(number, []).append(name)
        return groups

    def is_global(self, names: Sequence[str]) -> bool:
        return not self._global_sources.isdisjoint(names)

    def source_topics(self, names: Iterable[str] | None = None) -> list[str]:
        chosen = self.nodes if names is None else names
        return [topic for name in chosen if isinstance(node := self.nodes[name], SourceNode) for topic in node.topics]

    def describe(self) -> str:
        """The text that Kafka Streams prints for the same topology."""
        from ottla.streams.topology.describe import describe

        return describe(self)

    def to_svg(self) -> str:
        """A picture of the topology, as a text of SVG."""
        from ottla.streams.topology.picture import topology_svg

        return topology_svg(self)

    def check(self, partitions: Mapping[str, int] | None = None) -> None:
        """Raises TopologyError if a node is unreachable, or if co-partitioned topics differ in their partitions."""
        if not any(isinstance(node, SourceNode) for node in self.nodes.values()):
            raise TopologyError("The topology reads no topic; begin with StreamsBuilder.stream(...) or table(...).")
        for name, specification in self.stores.items():
            if not any(isinstance(node, ProcessorNode) and name in node.stores for node in self.nodes.values()):
                raise TopologyError(
                    f"Store {specification.name} is connected to no processor; name it in process(...) or remove it."
                )
        if partitions is not None:
            self._check_copartitions(partitions)

    # Internals.

    def _check_copartitions(self, partitions: Mapping[str, int]) -> None:
        for group in self.copartitioned:
            topics = [topic for topic in self.source_topics(sorted(group)) if topic not in self.internal_topics]
            numbers = {topic: partitions[topic] for topic in topics if topic in partitions}
            if len(set(numbers.values())) > 1:
                listed = ", ".join(f"{topic} has {number}" for topic, number in sorted(numbers.items()))
                raise TopologyError(
                    f"Topics that are joined need equal numbers of partitions: {listed}. "
                    "Add repartition() before the join, or change a topic."
                )

    def _check_new(self, name: str) -> None:
        if not name:
            raise TopologyError("A node has no name.")
        if name in self.nodes:
            raise TopologyError(f"There is already a node {name}; names are unique.")

    def _check_parents(self, name: str, parents: Sequence[str]) -> None:
        if not parents:
            raise TopologyError(f"Node {name} has no parent; name the nodes that forward to it.")
        for parent in parents:
            node = self.nodes.get(parent)
            if parent == name:
                raise TopologyError(f"Node {name} would forward to itself; a topology has no cycles.")
            if node is None:
                raise TopologyError(f"There is no node {parent} that could forward to {name}; add it first.")
            if isinstance(node, SinkNode):
                raise TopologyError(f"Node {name} cannot follow sink {parent}: sinks forward nothing.")

    def _root(self, name: str) -> str:
        while self._roots[name] != name:
            self._roots[name] = self._roots[self._roots[name]]
            name = self._roots[name]
        return name

    def _unite(self, name: str, others: Iterable[str]) -> None:
        for other in others:
            self._roots[self._root(other)] = self._root(name)


def check_name(name: str, subject: str) -> str:
    """A name that may become part of a topic name."""
    if not _LEGAL_NAME.match(name):
        raise TopologyError(f"{subject} {name!r} is not valid; use letters, digits, dots, underscores and hyphens.")
    return name
