"""Damage to closed segments: a bit rots, the file loses its end, or the file is removed."""

from __future__ import annotations

from ottla.model.ids import TopicPartition
from ottla.records.header import ATTRIBUTES_POSITION
from ottla.sim.disk import Directory, Inode
from ottla.sim.faults.fault import Fault
from ottla.sim.faults.processes import may_lose_power
from ottla.sim.node import SimNode
from ottla.storage.log import PartitionLog
from ottla.storage.scan import scan_headers
from ottla.storage.segment import Segment
from ottla.storage.segment_check import SegmentCheck, check_segment

__all__ = ["DamagedClosedSegment", "DamagedSegments"]


class DamagedClosedSegment:
    """One damaged segment on one disk."""

    def __init__(self, node: SimNode, partition: TopicPartition, segment: Segment) -> None:
        self.node = node
        self.node_id = node.node_id
        self._partition = partition
        self._base_offset = segment.base_offset
        self._is_repaired = False

    def __str__(self) -> str:
        return f"the segment at {self._base_offset} of {self._partition} on node {self.node_id}"

    @property
    def is_repaired(self) -> bool:
        """True if the segment is intact again, or was removed with its log."""
        self._is_repaired = self._is_repaired or self._is_intact()
        return self._is_repaired

    def _is_intact(self) -> bool:
        broker = self.node.broker
        if broker is None or not self.node.is_serving:
            return False
        log = broker.logs.get(self._partition)
        if log is None:
            return self._partition not in broker.replicas.offline
        segment = log.segments[log.segments.number_of(self._base_offset)]
        if segment.base_offset != self._base_offset or log.segments.active is segment:
            return True
        following = log.segments.after(segment)
        assert following is not None
        if log.is_offline or self._base_offset in log.files.failures.damaged_segments:
            return False
        try:
            check = check_segment(
                SegmentCheck(
                    broker.world.files,
                    segment.path,
                    segment.base_offset,
                    size=segment.size,
                    end_offset=following.base_offset,
                    may_have_gaps=False,
                )
            )
        except OSError:
            return False
        return not check.damages


class DamagedSegments(Fault):
    """Damages a closed segment of a running node, while another in-sync replica has the same records intact.

    The records are committed. The scrub, a read or the next start notices the damage, and the node repairs it. Only
    bytes that a checksum covers are flipped: as in Kafka, a read does not compare offsets.
    """

    name = "damaged segment"

    def strike(self) -> None:
        node = self.random_node()
        if self.cluster.is_damaged(node) or not may_lose_power(self.cluster, node):
            return
        broker = node.broker
        assert broker is not None
        closed = [
            (partition.topic_partition, partition.log, segment)
            for partition in broker.replicas.partitions()
            for segment in list(partition.log.segments)[:-1]
            if not partition.topic.startswith("__") and _is_committed(partition.log, segment)
        ]
        if not closed:
            return
        topic_partition, log, segment = self.random.choice(closed)
        damage = self.random.choice((self._rot, self._cut, self._remove))
        self.kernel.trace(self.name, f"node {node.node_id}: {segment.path}", segment.base_offset)
        self.kernel.counts[f"segment: {damage.__name__.strip('_')}"] += 1
        self.cluster.damaged_segments.append(DamagedClosedSegment(node, topic_partition, segment))
        damage(node, log, segment)

    def _rot(self, node: SimNode, _: PartitionLog, segment: Segment) -> None:
        inode = _inode_of(node, segment)
        position, header = self.random.choice(list(scan_headers(segment.file, 0, segment.size)))
        position += self.random.randrange(ATTRIBUTES_POSITION, header.size)
        for content in (inode.data, inode.durable):
            if position < len(content):
                content[position] ^= 1 << self.random.randrange(8)

    def _cut(self, node: SimNode, _: PartitionLog, segment: Segment) -> None:
        inode = _inode_of(node, segment)
        size = self.random.randrange(segment.size)
        if self.random.random() < 0.5:
            # Whole batches are lost: the next start finds nothing wrong with the rest.
            size = self.random.choice([position for position, _ in scan_headers(segment.file, 0, segment.size)])
        inode.cut(size)
        inode.sync()

    def _remove(self, node: SimNode, log: PartitionLog, segment: Segment) -> None:
        directory = node.disk.find(log.directory)
        assert isinstance(directory, Directory)
        directory.change((segment.path.rpartition("/")[2], None))
        directory.sync()


def _is_committed(log: PartitionLog, segment: Segment) -> bool:
    following = log.segments.after(segment)
    return following is not None and following.base_offset <= log.high_watermark and segment.size > 0


def _inode_of(node: SimNode, segment: Segment) -> Inode:
    inode = node.disk.find(segment.path)
    assert isinstance(inode, Inode)
    return inode
