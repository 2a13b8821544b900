"""Disk faults: full disks, slow and failing fsyncs, bit rot, and disks that are not mounted."""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.quorum.raft_node import RaftNode
from ottla.quorum.voters import ReplicaKey
from ottla.records.header import BATCH_LENGTH_POSITION, LEADER_EPOCH_POSITION, LENGTH_OVERHEAD, MAGIC_POSITION
from ottla.sim.disk import Directory, Inode
from ottla.sim.faults.fault import Fault
from ottla.sim.faults.processes import may_lose_power
from ottla.sim.kernel import SECOND_US
from ottla.sim.node import SimNode

__all__ = ["BitRot", "FailingSync", "FullDisk", "SlowSync", "UnmountedDisk", "is_voter"]

RESTART_US = 200_000

# The fields of a batch header that the CRC does not cover: the base offset and the partition leader epoch.
_NOT_COVERED = (*range(BATCH_LENGTH_POSITION), *range(LEADER_EPOCH_POSITION, MAGIC_POSITION))


class FullDisk(Fault):
    name = "full disk"

    def strike(self) -> None:
        node = self.random_node()
        if not self.may_end_uncleanly(node):
            return
        node.disk.is_full = True
        self.kernel.trace("disk full", str(node.node_id))
        self.undo_later((0.2, 8.0), setattr, node.disk, "is_full", False)


class FailingSync(Fault):
    """fsync fails for a while. In that time nothing becomes durable."""

    name = "failing fsync"

    def strike(self) -> None:
        node = self.random_node()
        if not self.may_end_uncleanly(node):
            return
        node.disk.fails_sync = True
        self.kernel.trace("fsync fails", str(node.node_id))
        self.undo_later((0.1, 5.0), setattr, node.disk, "fails_sync", False)


class SlowSync(Fault):
    name = "slow fsync"

    def strike(self) -> None:
        node = self.random_node()
        node.disk.sync_us = (10_000, self.random.choice((100_000, 1_000_000, 5_000_000)))
        self.kernel.trace("slow fsync", str(node.node_id))
        self.undo_later((1.0, 15.0), setattr, node.disk, "sync_us", (200, 2_000))


class BitRot(Fault):
    """Flips a bit of a partition's log on one disk, and kills the program before it can serve the damaged bytes.

    Recovery repairs only the segments that it reads, which were not flushed. So the bit is flipped in bytes that were
    never synced, on a node whose records other nodes have, too. Every second time no checksum covers the bit.
    """

    name = "bit rot"

    def strike(self) -> None:
        node = self.random_node()
        if not may_lose_power(self.cluster, node):
            return
        logs = [
            inode for path, inode in _files(node.disk.root, "") if path.endswith(".log") and "_metadata" not in path
        ]
        dirty = [inode for inode in logs if inode.pending and len(inode.data) > len(inode.durable)]
        if not dirty:
            return
        inode = self.random.choice(dirty)
        position = self.random.randrange(len(inode.durable), len(inode.data))
        if self.random.random() < 0.5:
            position = max(_start_of_batch(inode.data, position) + self.random.choice(_NOT_COVERED), len(inode.durable))
        self.kernel.trace("bit rot", f"node {node.node_id} at {position}", position)
        inode.write(position, bytes([inode.data[position] ^ (1 << self.random.randrange(8))]))
        self.cluster.damaged[node.node_id] = node.incarnation
        node.kill("killed after a bit has rotted")


class UnmountedDisk(Fault):
    """A controller restarts and finds an empty directory in place of its metadata log. Later its disk is back.

    A configured voter must not start in this state, because it would vote without its log. With voters in the log
    (KIP-853) the new directory has another id, so that the controller is a replica without a vote. If it may join the
    quorum automatically, it replaces the former voter, and the new disk may stay for good. A disk with the logs of
    partitions always stays, because the old copies would count as lost copies a second time.

    The vote matters most while a third controller lacks records that were on the missing disk. So the third controller
    is cut off for a moment, and every second time the leader is killed together with the voter.
    """

    name = "unmounted disk"

    def strike(self) -> None:
        controllers = [self.cluster.nodes[node_id] for node_id in self.cluster.layout.controller_ids]
        if not self._has_whole_quorum():
            return
        leader = next((node for node in controllers if _is_leading(node)), controllers[0])
        node, *late_nodes = self.random.sample(
            [other for other in controllers if other is not leader], len(controllers) - 1
        )
        for late in late_nodes:
            for host in (leader.host, node.host):
                self._cut_off(late.host, host)
        delay_us = round(self.random.uniform(0.1, 1.0) * SECOND_US)
        self.kernel.after(delay_us, self._unmount, node, leader if self.random.random() < 0.5 else None)

    def _cut_off(self, host: str, other: str) -> None:
        network = self.cluster.network
        for source, target in ((host, other), (other, host)):
            network.block(source, target)
            self.undo_later((1.0, 5.0), network.unblock, source, target)

    def _unmount(self, node: SimNode, killed_leader: SimNode | None) -> None:
        if node.disk.is_unmounted or not self.may_end_uncleanly(node):
            return
        if self.cluster.layout.has_one_disk:
            if not may_lose_power(self.cluster, node):
                return
            self.cluster.damaged[node.node_id] = node.incarnation
            killed_leader = None
        self.kernel.trace("unmount", str(node.node_id))
        node.kill("killed before its disk is unmounted")
        node.disk.unmount(self.cluster.layout.metadata_directory.strip("/"))
        self.kernel.after(RESTART_US, self.cluster.restart, node)
        self.undo_later((1.0, 12.0), self._end, node)
        if killed_leader is not None and self.may_end_uncleanly(killed_leader):
            killed_leader.kill()

    def _has_whole_quorum(self) -> bool:
        """True if every controller is a voter with its current disk. Only then one of the disks may be missing."""
        for node_id in self.cluster.layout.controller_ids:
            node = self.cluster.nodes[node_id]
            if node.disk.is_unmounted or not node.is_serving or node.broker is None or node.broker.quorum is None:
                return False
        quorums = [node.broker.quorum for node in self.cluster.nodes.values() if node.broker and node.broker.quorum]
        return all(is_voter(quorum, other.own) for quorum in quorums for other in quorums)

    def _end(self, node: SimNode) -> None:
        if not node.disk.is_unmounted:
            return
        quorum = None if node.broker is None else node.broker.quorum
        has_joined = quorum is not None and quorum.log.kraft_version > 0 and is_voter(quorum, quorum.own)
        if self.cluster.keeps_new_disk or (has_joined and self.random.random() < 0.5):
            self.kernel.trace("new disk", str(node.node_id))
            node.disk.keep_new()
        else:
            self.kernel.trace("mount", str(node.node_id))
            node.mount_again()


def is_voter(quorum: RaftNode, replica: ReplicaKey) -> bool:
    """True if the replica is a voter by the log of this node. Compared here, not by the code under test."""
    voter = quorum.log.voters.get(replica.node_id)
    return voter is not None and voter.key.directory_id in (Uuid.ZERO, replica.directory_id)


def _is_leading(node: SimNode) -> bool:
    return node.broker is not None and node.broker.quorum is not None and node.broker.quorum.is_leading


def _start_of_batch(data: bytearray, position: int) -> int:
    """The start of the batch that contains the position."""
    start = 0
    while (
        end := start
        + LENGTH_OVERHEAD
        + int.from_bytes(data[start + BATCH_LENGTH_POSITION : start + LENGTH_OVERHEAD], "big")
    ) <= position:
        start = end
    return start


def _files(directory: Directory, path: str) -> list[tuple[str, Inode]]:
    files: list[tuple[str, Inode]] = []
    for name, entry in directory.entries.items():
        if isinstance(entry, Directory):
            files.extend(_files(entry, f"{path}/{name}"))
        else:
            files.append((f"{path}/{name}", entry))
    return files
