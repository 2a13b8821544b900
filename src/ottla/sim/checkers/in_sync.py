"""In-sync replicas hold every committed record, because each of them may be elected at any moment."""

from __future__ import annotations

from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.sim.checkers.checker import Checker

__all__ = ["InSyncReplicas"]


class InSyncReplicas(Checker):
    """Compares the high watermarks of leaders with the logs of all members of the controller's in-sync sets.

    The newest committed metadata of any node has the in-sync sets. Two kinds of leaders are not compared: a leader with
    a newer partition epoch has newer metadata, and a leader with another leader epoch has a successor.
    """

    rule = "in-sync replicas hold all committed records"

    def sample(self) -> None:
        images = [node.broker.metadata.image for node in self.cluster.nodes.values() if node.is_serving and node.broker]
        if not images:
            return
        image: MetadataImage = max(images, key=lambda image: image.offset)
        for topic in image.topics.by_id.values():
            for index, row in topic.partitions.items():
                if len(row.isr) > 1:
                    self._check(topic, index, row)

    def _check(self, topic: TopicImage, index: int, row: PartitionImage) -> None:
        nodes = self.cluster.nodes
        leading = nodes.get(row.leader)
        if leading is None or leading.broker is None or not leading.is_serving:
            return
        leader = leading.broker.replicas.get(topic.name, index)
        if (
            leader is None
            or not leader.is_leader
            or leader.topic_id != topic.topic_id
            or leader.leader_epoch != row.leader_epoch
            or leader.partition_epoch > row.partition_epoch
        ):
            return
        for member in row.isr:
            node = nodes.get(member)
            if member == row.leader or node is None or node.broker is None or not node.is_serving:
                continue
            replica = node.broker.replicas.get(topic.name, index)
            if replica is None or replica.topic_id != topic.topic_id or replica.refusal is not None:
                continue
            if replica.log.log_end_offset < leader.high_watermark:
                self.report(
                    f"node {member} is in sync and ends {replica} at {replica.log.log_end_offset}, but node "
                    f"{row.leader} has committed up to {leader.high_watermark} in epoch {row.leader_epoch}"
                )
