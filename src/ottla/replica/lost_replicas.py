"""Replicas whose log is in no working log directory, or has lost records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ids import TopicPartition
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.model.ids import Uuid
    from ottla.replica.directory_reporter import DirectoryReporter
    from ottla.replica.manager import ReplicaManager
    from ottla.replica.views import ClusterView, PartitionView
    from ottla.storage.log import PartitionLog
    from ottla.storage.manager import LogManager

__all__ = ["check_may_lead", "forget_offline", "lost_replicas"]


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


def forget_offline(topic_partition: TopicPartition, topic_id: Uuid | None, replicas: ReplicaManager) -> None:
    """Forgets a replica without a log in service that has left this broker, and deletes a log that cannot be used.

    A later replica is new and may be in another directory. The log of a former topic of that name stays.
    """
    replicas.lost.discard(topic_partition)
    replicas.offline.discard(topic_partition)
    if replicas.logs.topic_id_of(topic_partition) in (None, topic_id):
        replicas.logs.delete(topic_partition)


def check_may_lead(
    log: PartitionLog, lost_from: int, view: PartitionView, node_id: int, reporter: DirectoryReporter | None
) -> None:
    """Raises if this broker leads with a log that has lost records, and another in-sync replica has to lead.

    If the controller does not support such a report, this broker leads, and lost records are repaired (`repairs`).
    """
    if view.leader != node_id or len(view.isr) == 1:
        return
    if reporter is None or reporter.is_supported:
        raise StorageError("another in-sync replica has to lead, because this one has lost records")
    damaged = log.segments[log.segments.number_of(lost_from)].base_offset
    log.files.failures.note_damaged(damaged, f"it has lost the records from offset {lost_from} on")
