"""A disk that loses unsynced writes, tears half-finished writes, fills up, gets slow and fails.

A file is an inode with two contents: the current one (`data`), and the one on the platter (`durable`). `durable` lacks
the writes since the last sync. A directory likewise has its current names and its durable names, which lack the changes
since its last sync: a synced file whose name is not synced is gone after a power loss, as POSIX allows. A killed
program loses nothing, because the page cache belongs to the operating system. At a power loss a random choice decides
how many of the pending changes had reached the platter: none, some (of which the last write may be torn), all, or later
changes without earlier ones.

A failed fsync makes nothing durable. The pages stay dirty, so the next fsync can succeed.
"""

from __future__ import annotations

import errno
from random import Random
from typing import NamedTuple

from ottla.model.ports import Buffer

__all__ = ["Directory", "Inode", "SimDisk"]

SECTOR_BYTES = 512

BUSY_US_MAX = 60_000_000
SYNC_US = (200, 2_000)


class _Write(NamedTuple):
    position: int
    data: bytes


class _Cut(NamedTuple):
    size: int


class Inode:
    """The content of a file. It exists independently of the file's names."""

    __slots__ = ("changes", "data", "durable", "modified_us", "pending", "reserved_to")

    def __init__(self) -> None:
        # The number of changes by programs. A bit that rots does not count.
        self.changes = 0
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[_Write | _Cut] = []
        self.reserved_to = 0
        self.modified_us = 0

    def write(self, position: int, data: Buffer) -> None:
        self.changes += 1
        _apply(self.data, _Write(position, b""), data)
        self.pending.append(_Write(position, bytes(data)))

    def cut(self, size: int) -> None:
        self.changes += 1
        self.pending.append(_Cut(size))
        _apply_cut(self.data, size)
        self.reserved_to = 0

    def sync(self) -> None:
        for change in self.pending:
            _replay(self.durable, change)
        self.pending.clear()

    def lose_power(self, random: Random) -> bool:
        """Keeps the changes that had reached the platter. Returns True if any change was lost."""
        pending = self.pending
        self.reserved_to = 0
        if pending:
            for change in _survivors(pending, random):
                _replay(self.durable, change)
            self.pending = []
        is_lossy = self.data != self.durable
        self.changes += is_lossy
        if is_lossy:
            self.data = bytearray(self.durable)
        return is_lossy


class Directory:
    """The current names and the durable names."""

    __slots__ = ("changes", "durable", "entries", "pending")

    def __init__(self) -> None:
        self.changes = 0
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        # Every element is one atomic step of the file system's journal: names that are set, or (None) removed.
        self.pending: list[tuple[tuple[str, Inode | Directory | None], ...]] = []

    def change(self, *changes: tuple[str, Inode | Directory | None]) -> None:
        self.changes += 1
        _rename_entries(self.entries, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        for changes in self.pending:
            _rename_entries(self.durable, changes)
        self.pending.clear()

    def lose_power(self, random: Random) -> int:
        """Keeps the changes that had reached the platter, recursively. Returns the number of entries with losses."""
        pending, self.pending = self.pending, []
        for changes in pending[: random.choice((0, random.randint(0, len(pending)), len(pending)))]:
            _rename_entries(self.durable, changes)
        lost = int(self.entries != self.durable)
        self.changes += lost
        self.entries = dict(self.durable)
        return lost + sum(entry.lose_power(random) for entry in self.entries.values())


class SimDisk:
    """The disk of one node. It outlives the processes of the node."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.root = Directory()
        # Faults, set and cleared by the schedule.
        self.is_full = False
        self.fails_sync = False
        self.fails_all = False
        self.sync_us = SYNC_US
        self.cold_read_probability = 0.02
        # Counts down with every change. At zero the process is killed instead of making the change.
        self.changes_until_kill: int | None = None
        # The directory of a mount point while another disk is mounted there, by name.
        self._unmounted: tuple[str, Directory] | None = None
        # True if the directory is mounted again when the program has ended.
        self.is_mounted_again_at_end = False
        self._busy_us = 0

    # -- interface for faults --------------------------------------------------------------------------------------

    def lose_power(self) -> int:
        return self.root.lose_power(self.random)

    def heal(self) -> None:
        self.is_full = self.fails_sync = self.fails_all = False
        self.sync_us = SYNC_US
        self.changes_until_kill = None

    @property
    def is_unmounted(self) -> bool:
        """True while a mount point shows an empty disk instead of its own disk."""
        return self._unmounted is not None

    def unmount(self, mount_point: str) -> None:
        """The mount point is empty from now on. The program must not be running."""
        assert self._unmounted is None
        directory = self.root.entries[mount_point]
        assert isinstance(directory, Directory)
        self._unmounted = mount_point, directory
        self._set_mount_point(mount_point, Directory())

    def mount_again(self) -> None:
        """The mount point shows its own disk again, and the other disk is thrown away."""
        self.is_mounted_again_at_end = False
        if self._unmounted is not None:
            self._set_mount_point(*self._unmounted)
            self._unmounted = None

    def keep_new(self) -> None:
        """The other disk stays at the mount point for good."""
        self._unmounted = None

    def on_process_ended(self) -> None:
        self.changes_until_kill = None
        if self.is_mounted_again_at_end:
            self.mount_again()

    def _set_mount_point(self, name: str, directory: Directory) -> None:
        """The name of a mount point cannot be lost."""
        self.root.change((name, directory))
        self.root.sync()

    @property
    def may_fail(self) -> bool:
        """True if a fault is active that can end the program."""
        return self.is_full or self.fails_sync or self.fails_all or self.changes_until_kill is not None

    def take_busy_us(self) -> int:
        """The time the disk has worked since the last call, at most one minute.

        The duration of a task is fixed when it begins. Without this bound, a task that syncs a hundred files on a slow
        disk would still be running long after the disk was healed.
        """
        busy, self._busy_us = self._busy_us, 0
        return min(busy, BUSY_US_MAX)

    # -- interface for files ---------------------------------------------------------------------------------------

    def check_change(self, path: str, *, takes_room: bool) -> bool:
        """Called before a change. Returns True if the process must be killed instead of making the change."""
        if self.fails_all:
            raise OSError(errno.EIO, "simulated disk failure", path)
        if takes_room and self.is_full:
            raise OSError(errno.ENOSPC, "no space left on the device", path)
        if self.changes_until_kill is not None:
            self.changes_until_kill -= 1
            if self.changes_until_kill <= 0:
                self.changes_until_kill = None
                return True
        return False

    def check_read(self, path: str) -> None:
        if self.fails_all:
            raise OSError(errno.EIO, "simulated disk failure", path)

    def sync(self, path: str, target: Inode | Directory) -> None:
        self._busy_us += self.random.randrange(*self.sync_us)
        if self.fails_sync:
            raise OSError(errno.EIO, "simulated fsync failure", path)
        target.sync()

    def find(self, path: str) -> Inode | Directory | None:
        node: Inode | Directory | None = self.root
        for name in path.split("/"):
            if name:
                if not isinstance(node, Directory):
                    return None
                node = node.entries.get(name)
        return node


def _survivors(pending: list[_Write | _Cut], random: Random) -> list[_Write | _Cut]:
    """The unsynced changes that had reached the platter, chosen at random."""
    fate = random.randrange(4)
    if fate == 0:
        return []
    if fate == 1:
        return pending
    if fate == 2:
        kept = pending[: random.randint(0, len(pending))]
        if kept and isinstance(kept[-1], _Write):
            # The last write is torn at a multiple of the sector size, counted from its beginning.
            write = kept[-1]
            sectors = len(write.data) // SECTOR_BYTES
            kept = [*kept[:-1], _Write(write.position, write.data[: random.randint(0, sectors) * SECTOR_BYTES])]
        return kept
    return [change for change in pending if random.random() < 0.7]


def _replay(content: bytearray, change: _Write | _Cut) -> None:
    if isinstance(change, _Cut):
        _apply_cut(content, change.size)
    else:
        _apply(content, change, change.data)


def _apply(content: bytearray, write: _Write, data: Buffer) -> None:
    position = write.position
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _apply_cut(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _rename_entries(
    entries: dict[str, Inode | Directory], changes: tuple[tuple[str, Inode | Directory | None], ...]
) -> None:
    for name, node in changes:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node
