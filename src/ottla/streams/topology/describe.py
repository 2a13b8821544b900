"""The text form of a topology, with the layout and order of Kafka Streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.streams.topology.java_order import TreeSet, hash_order
from ottla.streams.topology.topology import ProcessorNode, SinkNode, SourceNode

if TYPE_CHECKING:
    from ottla.streams.topology.topology import Topology

__all__ = ["describe"]


def describe(topology: Topology) -> str:
    lines = ["Topologies:\n "]
    subtopologies, global_stores = [], []
    for number, names in topology.node_groups().items():
        if topology.is_global(names):
            global_stores.append((number, _global_store(topology, number, names)))
        else:
            subtopologies.append((number, _subtopology(topology, number, names)))
    return "".join([*lines, *(text for _, text in sorted([*subtopologies, *global_stores]))])


def _subtopology(topology: Topology, number: int, names: list[str]) -> str:
    sizes = dict.fromkeys(names, 1)

    def compare(left: str, right: str) -> int:
        if left == right:
            return 0
        return sizes[right] - sizes[left] if sizes[left] != sizes[right] else (left > right) - (left < right)

    parents = {name: TreeSet(compare) for name in names}
    children = {name: TreeSet(compare) for name in names}

    def grow(name: str, size: int) -> None:
        """Adds to the size of a node and of all nodes before it that are connected so far."""
        sizes[name] += size
        for parent in parents[name]:
            grow(parent, size)

    # The nodes are connected in the order of a hash map that was filled from a hash set.
    for name in hash_order(hash_order(names)):
        for parent in topology.nodes[name].predecessors:
            parents[name].add(parent)
            children[parent].add(name)
            grow(parent, sizes[name])
    text = [f"  Sub-topology: {number}\n"]
    for name in sorted(names, key=lambda name: (-sizes[name], name)):
        neighbours = [", ".join(adjacent) or "none" for adjacent in (children[name], parents[name])]
        text.append(f"    {_node(topology, name, *neighbours)}\n")
    return "".join([*text, "\n"])


def _global_store(topology: Topology, number: int, names: list[str]) -> str:
    source = next(name for name in names if name in topology.global_sources)
    processor = next(name for name in names if name != source)
    return (
        f"  Sub-topology: {number} for global store (will not generate tasks)\n"
        f"    {_node(topology, source, processor, '')}\n    {_node(topology, processor, 'none', source)}\n"
    )


def _node(topology: Topology, name: str, children: str, parents: str) -> str:
    node = topology.nodes[name]
    if isinstance(node, SourceNode):
        topics = node.pattern.pattern if node.pattern is not None else f"[{', '.join(node.topics)}]"
        return f"Source: {name} (topics: {topics})\n      --> {children}"
    if isinstance(node, SinkNode):
        target = f"topic: {node.topic}" if isinstance(node.topic, str) else f"extractor class: {_function(node.topic)}"
        return f"Sink: {name} ({target})\n      <-- {parents}"
    assert isinstance(node, ProcessorNode)
    return (
        f"Processor: {name} (stores: [{', '.join(hash_order(node.stores))}])\n      --> {children}\n      <-- {parents}"
    )


def _function(function: object) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__
