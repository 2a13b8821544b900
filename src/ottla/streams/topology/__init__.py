"""Topologies as plain values. See README.md."""

from ottla.streams.topology.topology import InternalTopic, ProcessorNode, SinkNode, SourceNode, Topology

__all__ = ["InternalTopic", "ProcessorNode", "SinkNode", "SourceNode", "Topology"]
