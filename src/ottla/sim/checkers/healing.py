"""After the last fault the cluster recovers by itself: nodes serve, partitions have leaders, replicas are in sync."""

from __future__ import annotations

from ottla.sim.cluster import SimCluster
from ottla.sim.faults.disks import is_voter

__all__ = ["unhealed_part"]


def unhealed_part(cluster: SimCluster) -> str | None:
    """A description of the first unhealthy part of the cluster; None if it is healthy."""
    for node in cluster.nodes.values():
        if not node.is_serving:
            return f"node {node.node_id} does not serve"
    images = [node.broker.metadata.image for node in cluster.nodes.values() if node.broker is not None]
    offset = max(image.offset for image in images)
    for image in images:
        # A node may lag by the few records that are in flight, but not by more.
        if image.offset < offset - 50:
            return f"a node has replayed metadata up to {image.offset}, other nodes up to {offset}"
    image = max(images, key=lambda image: image.offset)
    for topic in image.topics.by_id.values():
        for index, row in topic.partitions.items():
            name = f"{topic.name}-{index}"
            if row.leader < 0:
                return f"{name} has no leader (ISR {row.isr}, ELR {row.elr}, last known {row.last_known_elr})"
            if row.adding_replicas or row.removing_replicas:
                return f"{name} is still reassigned: adds {row.adding_replicas}, removes {row.removing_replicas}"
            if len(row.isr) < len(row.replicas):
                return f"{name} has replicas {row.replicas} and in-sync replicas {row.isr}, led by {row.leader}"
            broker = cluster.nodes[row.leader].broker
            partition = None if broker is None else broker.replicas.get(topic.name, index)
            if partition is None or not partition.is_leader:
                return f"{name} has leader {row.leader} in the metadata, but that node does not lead it"
    for node in cluster.nodes.values():
        quorum = None if node.broker is None else node.broker.quorum
        if quorum is not None and not is_voter(quorum, quorum.own):
            return f"controller {node.node_id} is not a voter"
    for damaged in cluster.damaged_segments:
        if not damaged.is_repaired:
            return f"{damaged} is not repaired"
    for broker_id, broker_row in image.brokers.items():
        if broker_row.fenced:
            return f"broker {broker_id} is fenced"
    return None
