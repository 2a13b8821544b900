"""Finds the column form of a sub-topology: a tree of steps for each source. docs/streams.md lists the forms."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ottla.streams.columnar.aggregates import aggregate_step
from ottla.streams.columnar.joins import lookup_step, table_step
from ottla.streams.columnar.pairs import PairStep, pair_step
from ottla.streams.columnar.sessions import session_step
from ottla.streams.columnar.stateless import Branches, stateless_step
from ottla.streams.columnar.step import Step
from ottla.streams.columnar.windows import window_step
from ottla.streams.machine.task import StreamTask
from ottla.streams.operators.aggregates import Aggregate, WindowAggregate
from ottla.streams.operators.sessions import SessionAggregate
from ottla.streams.operators.stateless import Branch
from ottla.streams.operators.stream_joins import JoinSide, JoinWindow
from ottla.streams.operators.table_joins import StreamTableJoin
from ottla.streams.operators.tables import TableSource
from ottla.streams.serdes import Serde
from ottla.streams.topology.topology import ProcessorNode, SinkNode, SourceNode, Topology

__all__ = ["Form", "Sink", "Tree", "find_form"]


class Sink(NamedTuple):
    topic: str
    key_serde: Serde
    value_serde: Serde


class Tree(NamedTuple):
    """A node and the trees of the nodes that it forwards to."""

    name: str
    # None for the source itself, and for the end of one side of a join.
    step: Step | Branches | Sink | None
    children: tuple[Tree, ...]


class Form(NamedTuple):
    # By source.
    trees: dict[str, Tree]
    # A join of two streams: the sources of its left and right side, and the tree after the join.
    pair: PairStep | None = None
    sides: tuple[str, str] = ("", "")
    tail: Tree | None = None


def find_form(topology: Topology, names: tuple[str, ...], task: StreamTask) -> Form | None:
    sources = [node for name in names if isinstance(node := topology.nodes[name], SourceNode)]
    if any(source.timestamp_extractor is not None for source in sources):
        return None
    finder = _Finder(topology, task)
    if any(_kind(topology.nodes[name]) is JoinWindow for name in names):
        return finder.pair(sources, names)
    trees = {}
    for source in sources:
        tree = finder.tree(source.name)
        if tree is None or not finder.is_separate(tree):
            return None
        trees[source.name] = tree
    return Form(trees)


class _Finder:
    def __init__(self, topology: Topology, task: StreamTask) -> None:
        self._topology = topology
        self._task = task

    def tree(self, name: str) -> Tree | None:
        """The steps from a node on; None if one of them has no column form."""
        node = self._topology.nodes[name]
        step: Any = None
        if isinstance(node, SinkNode):
            step = self._sink(node)
        elif isinstance(node, ProcessorNode):
            step = self._step(node)
        if step is None and not isinstance(node, SourceNode):
            return None
        children = []
        for child in self._topology.children(name):
            subtree = self.tree(child)
            if subtree is None:
                return None
            children.append(subtree)
        return Tree(name, step, tuple(children))

    def is_separate(self, tree: Tree) -> bool:
        """True if no two nodes of a tree share a child, a store or a topic: the order of the nodes would matter."""
        nodes, stores, topics = [], [], []
        waiting = [tree]
        while waiting:
            subtree = waiting.pop()
            waiting += subtree.children
            node = self._topology.nodes[subtree.name]
            nodes.append(subtree.name)
            if isinstance(node, ProcessorNode):
                stores += node.stores
            if isinstance(subtree.step, Sink):
                topics.append(subtree.step.topic)
        return all(len(names) == len(set(names)) for names in (nodes, stores, topics))

    def pair(self, sources: list[SourceNode], names: tuple[str, ...]) -> Form | None:
        """An inner join of two streams. Before it there are stateless chains only."""
        chains = [chain for source in sources if (chain := self._chain(source.name)) is not None]
        if len(sources) != 2 or len(chains) != 2:
            return None
        (first_chain, first_window), (second_chain, second_window) = chains
        windows = {name: self._task.processors[name] for name in (first_window, second_window)}
        sides = {name: self._side_after(name) for name in windows}
        if None in sides.values() or first_window == second_window:
            return None
        left = next((name for name, side in sides.items() if side.is_left), "")  # type: ignore[union-attr]
        right = next((name for name, side in sides.items() if not side.is_left), "")  # type: ignore[union-attr]
        if not left or not right:
            return None
        step = pair_step((windows[left], windows[right]), (sides[left], sides[right]))  # type: ignore[arg-type]
        after = {self._after_side(name) for name in windows}
        if step is None or len(after) != 1:
            return None
        merge = after.pop()
        tail = self.tree(merge) if merge else None
        if tail is None or not self.is_separate(tail):
            return None
        first, second = (
            (sources[0].name, sources[1].name) if left == first_window else (sources[1].name, sources[0].name)
        )
        if not self._covers(names, (first_chain, second_chain), tail, len(windows) + len(sides)):
            return None
        return Form({sources[0].name: first_chain, sources[1].name: second_chain}, step, (first, second), tail)

    def _covers(self, names: tuple[str, ...], chains: tuple[Tree, Tree], tail: Tree, join_nodes: int) -> bool:
        """True if the nodes of a join are all nodes of the sub-topology."""
        counted, waiting = join_nodes, [*chains, tail]
        while waiting:
            subtree = waiting.pop()
            waiting += subtree.children
            counted += 1
        return counted == len(names)

    def _chain(self, name: str) -> tuple[Tree, str] | None:
        """The stateless steps of one side of a join, and the node with its window."""
        names = []
        while True:
            children = self._topology.children(name)
            if len(children) != 1:
                return None
            names.append(name)
            name = children[0]
            if _kind(self._topology.nodes[name]) is JoinWindow:
                break
        tree: Tree | None = None
        for node_name in reversed(names):
            node = self._topology.nodes[node_name]
            step = stateless_step(node.supplier) if isinstance(node, ProcessorNode) else None
            if step is None and not isinstance(node, SourceNode):
                return None
            tree = Tree(node_name, step, () if tree is None else (tree,))
        assert tree is not None
        return tree, name

    def _side_after(self, window: str) -> JoinSide | None:
        children = self._topology.children(window)
        processor = self._task.processors[children[0]] if len(children) == 1 else None
        return processor if isinstance(processor, JoinSide) else None

    def _after_side(self, window: str) -> str:
        after = self._topology.children(self._topology.children(window)[0])
        return after[0] if len(after) == 1 else ""

    def _sink(self, node: SinkNode) -> Sink | None:
        if node.partitioner is not None or not isinstance(node.topic, str):
            return None
        settings = self._task.settings
        internal = node.topic in self._topology.internal_topics
        return Sink(
            settings.internal_topic(node.topic) if internal else node.topic,
            settings.resolve_key(node.key_serde),
            settings.resolve_value(node.value_serde),
        )

    def _step(self, node: ProcessorNode) -> Step | Branches | None:
        supplier, processor = node.supplier, self._task.processors[node.name]
        if isinstance(supplier, Aggregate):
            return aggregate_step(supplier, processor, self._task.stores[supplier.store])
        if type(supplier) is WindowAggregate:
            return window_step(supplier, processor, self._task.stores[supplier.store])
        if isinstance(supplier, SessionAggregate):
            return session_step(supplier, processor, self._task.stores[supplier.store])
        if isinstance(supplier, TableSource):
            queryable = supplier.queryable
            return table_step(supplier, processor, None if queryable is None else self._task.stores[queryable])
        if isinstance(processor, StreamTableJoin):
            return lookup_step(processor)
        if isinstance(supplier, functools.partial) and supplier.func is Branch:
            return Branches(*supplier.args, **supplier.keywords)
        return stateless_step(supplier)


def _kind(node: Any) -> Any:
    supplier = getattr(node, "supplier", None)
    return supplier.func if isinstance(supplier, functools.partial) else None
