"""Disk faults: full disks, slow and failing fsyncs, and bit rot."""

from __future__ import annotations

from ottla.records.header import BATCH_LENGTH_POSITION, LEADER_EPOCH_POSITION, LENGTH_OVERHEAD, MAGIC_POSITION
from ottla.sim.disk import Directory, Inode
from ottla.sim.faults.fault import Fault
from ottla.sim.faults.processes import may_lose_power

__all__ = ["BitRot", "FailingSync", "FullDisk", "SlowSync"]

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
    """A bit of a partition's log flips on one disk, and the program is killed before it can serve it.

    Recovery repairs the segments that it reads: those that were not flushed. So the bit is flipped in bytes that were
    never synced, on a node whose records other nodes have too. Every second time it is a bit that no checksum covers.
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
