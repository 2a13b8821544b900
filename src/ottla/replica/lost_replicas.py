"""Replicas whose log is in no working log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.replica.views import ClusterView
    from ottla.storage.manager import LogManager

__all__ = ["lost_replicas"]


def lost_replicas(image: ClusterView, logs: LogManager, node_id: int) -> set[TopicPartition]:
    """The replicas of this node that are lost because a directory is out of service; none if all are in service."""
    online = {directory.directory_id for directory in logs.online_directories()}
    lost: set[TopicPartition] = set()
    if len(online) == len(logs.directories):
        return lost
    for topic in image.topics.by_id.values():
        for index, view in topic.partitions.items():
            topic_partition = TopicPartition(topic.name, index)
            is_here = logs.get(topic_partition) is not None or view.directory(node_id) in online
            if node_id in view.replicas and not is_here:
                lost.add(topic_partition)
    return lost
