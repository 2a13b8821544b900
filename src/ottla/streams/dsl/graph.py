"""The logical graph that the DSL builds, and how it becomes a topology.

Names are numbered when an operator is called, and nodes are written in the order of their priority: the same rules as
Kafka Streams', because names of stores, of internal topics and of sub-topologies depend on them.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.streams.errors import TopologyError
from ottla.streams.operators.stateless import Filter, PassThrough
from ottla.streams.serdes import Serde
from ottla.streams.topology.topology import InternalTopic, Topology, check_name

__all__ = ["Graph", "GraphNode", "RepartitionNode", "has_key"]


class GraphNode:
    """One operator. `write` adds its processors to a topology; `grace_ms` is set by windowed aggregates."""

    def __init__(
        self,
        name: str,
        write: Callable[[Topology, Sequence[str]], None] | None = None,
        *,
        changes_key: bool = False,
        changes_value: bool = False,
        is_merge: bool = False,
        tolerates_null_keys: bool = False,
        grace_ms: int | None = None,
        is_versioned: bool | None = None,
    ) -> None:
        self.name = name
        self.changes_key = changes_key
        self.changes_value = changes_value
        self.is_merge = is_merge
        self.tolerates_null_keys = tolerates_null_keys
        self.grace_ms = grace_ms
        self.is_versioned = is_versioned
        self.parents: list[GraphNode] = []
        self.children: list[GraphNode] = []
        self.priority = -1
        self._write = write

    @property
    def has_versions(self) -> bool:
        """True if changes of this table carry `is_latest`; operators without a store inherit this."""
        if self.is_versioned is not None or not self.parents:
            return bool(self.is_versioned)
        return all(parent.has_versions for parent in self.parents)

    def write(self, topology: Topology) -> None:
        if self._write is not None:
            self._write(topology, [parent.name for parent in self.parents])

    def add_child(self, child: GraphNode) -> None:
        if child not in self.children:
            self.children.append(child)
        if self not in child.parents:
            child.parents.append(self)

    def remove_child(self, child: GraphNode) -> None:
        self.children.remove(child)
        child.parents.remove(self)


class RepartitionNode(GraphNode):
    """A filter, a sink and a source around a repartition topic. Its name is that of the source."""

    def __init__(
        self,
        *,
        source: str,
        sink: str,
        filter_name: str,
        topic: InternalTopic,
        key_serde: Serde | None,
        value_serde: Serde | None,
        partitioner: Callable[[str, Any, Any, int], int | None] | None = None,
        may_merge: bool = True,
    ) -> None:
        super().__init__(source)
        self.sink = sink
        self.filter_name = filter_name
        self.topic = topic
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.partitioner = partitioner
        self.may_merge = may_merge
        # Records without a key are dropped before the topic, unless a later join keeps them.
        self.drops_null_keys = False

    def write(self, topology: Topology) -> None:
        topology.add_internal_topic(self.topic)
        supplier: Callable[[], Any] = functools.partial(Filter, has_key) if self.drops_null_keys else PassThrough
        topology.add_processor(self.filter_name, supplier, *[parent.name for parent in self.parents])
        topology.add_sink(
            self.sink,
            self.topic.name,
            self.filter_name,
            key_serde=self.key_serde,
            value_serde=self.value_serde,
            partitioner=self.partitioner,
        )
        topology.add_source(self.name, self.topic.name, key_serde=self.key_serde, value_serde=self.value_serde)


def has_key(key: Any, value: Any) -> bool:  # noqa: ARG001
    return key is not None


class Graph:
    """Nodes below a root, and the counter of names."""

    def __init__(self) -> None:
        self.root = GraphNode("root")
        self.copartitioned: list[set[str]] = []
        self.table_sources: list[Any] = []
        self._index = itertools.count()
        self._priority = itertools.count()
        self._key_changers: dict[GraphNode, list[RepartitionNode]] = {}

    # Names.

    def new_name(self, prefix: str) -> str:
        return f"{prefix}{next(self._index):010d}"

    def new_store_name(self, prefix: str) -> str:
        return f"{prefix}STATE-STORE-{next(self._index):010d}"

    def name(self, named: str | None, prefix: str, suffix: str = "") -> str:
        """The user's name with a suffix, or a generated name. A number is used up in both cases."""
        generated = self.new_name(prefix)
        return generated if named is None else check_name(named + suffix, "The name")

    # Nodes.

    def add(self, parents: GraphNode | Iterable[GraphNode], child: GraphNode) -> None:
        for parent in [parents] if isinstance(parents, GraphNode) else parents:
            parent.add_child(child)
            child.priority = next(self._priority)
            if child.changes_key:
                self._key_changers.setdefault(child, [])
            elif isinstance(child, RepartitionNode) and child.may_merge:
                changer = _ancestor(child, lambda node: node.changes_key or node.changes_value)
                # A topic stays behind an operator that changes values: its serde may not fit the values before.
                if (
                    changer is not None
                    and changer is _ancestor(child, lambda node: node.changes_key)
                    and child not in self._key_changers.setdefault(changer, [])
                ):
                    self._key_changers[changer].append(child)

    def copartition(self, sources: Iterable[str]) -> set[str]:
        group = set(sources)
        self.copartitioned.append(group)
        return group

    # Building.

    def build(self, optimizations: frozenset[str]) -> Topology:
        self._merge_equal_sources()
        if "reuse.ktable.source.topics" in optimizations:
            for source in self.table_sources:
                source.reuses_topic = True
        if "merge.repartition.topics" in optimizations:
            self._merge_repartitions()
        if "single.store.self.join" in optimizations:
            self._rewrite_self_joins()
        self._filter_null_keys()
        topology = Topology()
        written = {self.root}
        waiting = [(-1, 0, self.root)]
        order = itertools.count(1)
        while waiting:
            node = heapq.heappop(waiting)[2]
            if node not in written and all(parent in written for parent in node.parents):
                node.write(topology)
                written.add(node)
            for child in node.children:
                heapq.heappush(waiting, (child.priority, next(order), child))
        for group in self.copartitioned:
            topology.copartition_sources(group)
        _check_copartitioned_numbers(topology)
        return topology

    def _merge_equal_sources(self) -> None:
        """Streams of one topic share a source; overlapping sets of topics are refused."""
        seen: dict[str, GraphNode] = {}
        for node in list(self.root.children):
            topics: tuple[str, ...] = getattr(node, "topics", ())
            for topic in topics:
                first = seen.setdefault(topic, node)
                if first is node:
                    continue
                if set(getattr(first, "topics", ())) != set(topics):
                    raise TopologyError(
                        f"Topic {topic} is read by two streams with different sets of topics; read it once, and "
                        "merge() the streams."
                    )
                if getattr(first, "offset_reset", None) != getattr(node, "offset_reset", None):
                    raise TopologyError(f"Topic {topic} is read with two different offset reset policies.")
                for child in list(node.children):
                    node.remove_child(child)
                    first.add_child(child)
                if node in self.root.children:
                    self.root.remove_child(node)
                for group in self.copartitioned:
                    if node.name in group:
                        group.remove(node.name)
                        group.add(first.name)

    def _filter_null_keys(self) -> None:
        visited: dict[GraphNode, bool] = {}

        def tolerates(node: GraphNode) -> bool:
            """True if a node below keeps records without a key."""
            if node not in visited:
                visited[node] = False
                tolerances = [child.tolerates_null_keys or tolerates(child) for child in node.children]
                visited[node] = any(tolerances)
            return visited[node]

        tolerates(self.root)
        for node, keeps in visited.items():
            if isinstance(node, RepartitionNode):
                node.drops_null_keys = not keeps

    def _merge_repartitions(self) -> None:
        """Several repartition topics after one change of the key become one, directly after the change."""
        self._move_to_merges()
        for changer, repartitions in list(self._key_changers.items()):
            if not repartitions:
                continue
            first = repartitions[0]
            merged = self.new_repartition(
                first.topic.name,
                next((node.key_serde for node in repartitions if node.key_serde is not None), None),
                next((node.value_serde for node in repartitions if node.value_serde is not None), None),
            )
            merged.priority = changer.priority
            for node in repartitions:
                child = _ancestor(node, lambda below, changer=changer: changer in below.parents, include_self=True)  # type: ignore[misc]
                # None: an earlier topic was behind the same child, which has moved already. Kafka Streams fails here.
                if child is not None:
                    merged.add_child(child)
                    changer.remove_child(child)
                parents = list(node.parents)
                for grandchild in list(node.children):
                    for parent in parents:
                        parent.add_child(grandchild)
                for parent in parents:
                    parent.remove_child(node)
                for grandchild in list(node.children):
                    node.remove_child(grandchild)
                for group in self.copartitioned:
                    if node.name in group:
                        group.remove(node.name)
                        group.add(merged.name)
            changer.add_child(merged)

    def _move_to_merges(self) -> None:
        """Repartitions below a merge of streams belong to the merge, not to the changes of keys above it."""
        merges = [node for node in _all_nodes(self.root) if node.is_merge]
        for merge in sorted(merges, key=lambda node: node.priority):
            moved: list[RepartitionNode] = []
            for changer, repartitions in list(self._key_changers.items()):
                below = repartitions and all(_is_below(node, merge) for node in repartitions)
                if below and _is_below(merge, changer):
                    moved += [node for node in repartitions if node not in moved]
                    del self._key_changers[changer]
            if moved:
                self._key_changers[merge] = moved

    def _rewrite_self_joins(self) -> None:
        for node in _all_nodes(self.root):
            rewrite = getattr(node, "use_single_store", None)
            if rewrite is not None and len(node.parents) == 1:
                rewrite()

    def new_repartition(
        self,
        prefix: str,
        key_serde: Serde | None,
        value_serde: Serde | None,
        *,
        partitions: int | None = None,
        partitioner: Callable[[str, Any, Any, int], int | None] | None = None,
        may_merge: bool = True,
    ) -> RepartitionNode:
        """A repartition node, not yet connected. Three numbers of names are used up in any case."""
        topic = prefix if prefix.endswith("-repartition") else f"{prefix}-repartition"
        sink, filter_name, source = (self.new_name(f"KSTREAM-{kind}-") for kind in ("SINK", "FILTER", "SOURCE"))
        if not _is_generated(prefix):
            sink, filter_name, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
        return RepartitionNode(
            source=source,
            sink=sink,
            filter_name=filter_name,
            topic=InternalTopic(name=topic, partitions=partitions, enforces_partitions=partitions is not None),
            key_serde=key_serde,
            value_serde=value_serde,
            partitioner=partitioner,
            may_merge=may_merge,
        )


def _is_generated(prefix: str) -> bool:
    head, _, number = prefix.rpartition("-")
    return head.startswith("KSTREAM") and len(number) == 10 and number.isdecimal()


def _ancestor(node: GraphNode, matches: Callable[[GraphNode], bool], *, include_self: bool = False) -> GraphNode | None:
    if include_self and matches(node):
        return node
    for parent in node.parents:
        ancestor = parent if matches(parent) else _ancestor(parent, matches)
        if ancestor is not None:
            return ancestor
    return None


def _is_below(node: GraphNode, ancestor: GraphNode) -> bool:
    return _ancestor(node, lambda candidate: candidate is ancestor) is not None


def _all_nodes(root: GraphNode) -> list[GraphNode]:
    nodes: dict[GraphNode, None] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node not in nodes:
            nodes[node] = None
            waiting += node.children
    return list(nodes)


def _check_copartitioned_numbers(topology: Topology) -> None:
    """Repartition topics with a fixed number of partitions must agree within a co-partitioned group."""
    for group in topology.copartitioned:
        topics = topology.source_topics(name for name in group if name in topology.nodes)
        numbers = {
            topic: internal.partitions
            for topic in topics
            if (internal := topology.internal_topics.get(topic)) is not None and internal.partitions is not None
        }
        if len(set(numbers.values())) > 1:
            listed = ", ".join(f"{topic} has {number}" for topic, number in sorted(numbers.items()))
            raise TopologyError(f"Repartition topics that are joined need equal numbers of partitions: {listed}.")
