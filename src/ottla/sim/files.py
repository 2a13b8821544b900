"""The Files port over a simulated disk, for one process.

A killed process may still hold open files, but none of its calls reaches the disk any more.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable

from ottla.model.ports import Buffer, DirectoryLocked, File, Files, Lock, TruncatedFile
from ottla.sim.disk import Directory, Inode, SimDisk
from ottla.sim.kernel import Kernel
from ottla.sim.process import EPOCH_MS, ProcessKilled

__all__ = ["SimFile", "SimFiles"]

VOLUME_BYTES = 1 << 40


class SimFiles:
    """The files of a disk for one process."""

    def __init__(self, kernel: Kernel, disk: SimDisk) -> None:
        self._kernel = kernel
        self.disk = disk
        self.is_dead = False
        self.on_short_file: Callable[[str], None] | None = None
        self._locks: set[str] = set()

    # -- the port --------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = True) -> File:
        self.check_read(path)
        entry = self.disk.find(path)
        if isinstance(entry, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if entry is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.check_change(path, takes_room=True)
            entry = Inode()
            entry.modified_us = self._kernel.now_us
            directory, name = self._parent(path)
            directory.change((name, entry))
        return SimFile(self, path, entry)

    def exists(self, path: str) -> bool:
        self.check_read(path)
        return self.disk.find(path) is not None

    def is_directory(self, path: str) -> bool:
        self.check_read(path)
        return isinstance(self.disk.find(path), Directory)

    def list_directory(self, path: str) -> list[str]:
        self.check_read(path)
        return sorted(self._directory(path).entries)

    def make_directories(self, path: str) -> None:
        self.check_read(path)
        node = self.disk.root
        for name in path.split("/"):
            if not name:
                continue
            entry = node.entries.get(name)
            if entry is None:
                self.check_change(path, takes_room=True)
                entry = Directory()
                node.change((name, entry))
            if not isinstance(entry, Directory):
                raise FileExistsError(errno.EEXIST, "is a file", path)
            node = entry

    def size_of(self, path: str) -> int:
        inode = self._inode(path)
        return max(len(inode.data), inode.reserved_to)

    def modified_ms(self, path: str) -> int:
        return EPOCH_MS + self._inode(path).modified_us // 1000

    def stamp_of(self, path: str) -> int:
        self.check_read(path)
        entry = self.disk.find(path)
        if entry is None:
            return -1
        return entry.changes

    def rename(self, source: str, target: str) -> None:
        self.check_change(source, takes_room=False)
        entry = self.disk.find(source)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        source_parent, source_name = self._parent(source)
        target_parent, target_name = self._parent(target)
        if source_parent is target_parent:
            source_parent.change((source_name, None), (target_name, entry))
        else:
            target_parent.change((target_name, entry))
            source_parent.change((source_name, None))

    def remove(self, path: str) -> None:
        self.check_change(path, takes_room=False)
        self._inode(path)
        directory, name = self._parent(path)
        directory.change((name, None))

    def remove_tree(self, path: str) -> None:
        node = self.disk.find(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        for name, entry in list(node.entries.items()):
            if isinstance(entry, Directory):
                self.remove_tree(f"{path}/{name}")
            else:
                self.remove(f"{path}/{name}")
        self.check_change(path, takes_room=False)
        directory, name = self._parent(path)
        directory.change((name, None))

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    def write_atomically(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary)
        file.truncate(0)
        file.append(data)
        if durable:
            file.sync()
        self.rename(temporary, path)
        if durable:
            self.sync_directory(posixpath.dirname(path))

    def sync_directory(self, path: str) -> None:
        self.check_change(path, takes_room=False)
        self.disk.sync(path, self._directory(path))

    def lock(self, path: str) -> Lock:
        self.open(path)
        if path in self._locks:
            raise DirectoryLocked(errno.EAGAIN, "the lock is held", path)
        self._locks.add(path)
        return _SimLock(self._locks, path)

    def free_bytes(self, path: str) -> tuple[int, int]:
        self.check_read(path)
        return VOLUME_BYTES, 0 if self.disk.is_full else VOLUME_BYTES // 2

    # -- for the files of this process -----------------------------------------------------------------------------

    def check_change(self, path: str, *, takes_room: bool) -> None:
        if self.is_dead:
            raise ProcessKilled
        if self.disk.check_change(path, takes_room=takes_room):
            # Set before the exception is raised: `finally` blocks on the way out must not change the disk any more.
            self.is_dead = True
            raise ProcessKilled

    def check_read(self, path: str) -> None:
        if self.is_dead:
            raise ProcessKilled
        self.disk.check_read(path)

    def touch(self, inode: Inode) -> None:
        inode.modified_us = self._kernel.now_us

    def _parent(self, path: str) -> tuple[Directory, str]:
        head, _, name = path.rstrip("/").rpartition("/")
        return self._directory(head), name

    def _directory(self, path: str) -> Directory:
        entry = self.disk.find(path)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if not isinstance(entry, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return entry

    def _inode(self, path: str) -> Inode:
        self.check_read(path)
        entry = self.disk.find(path)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(entry, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return entry


class SimFile:
    """An open file. It keeps its own size, because a preallocated file is longer on the disk."""

    __slots__ = ("_files", "_inode", "_path", "_size")

    def __init__(self, files: SimFiles, path: str, inode: Inode) -> None:
        self._files = files
        self._path = path
        self._inode = inode
        self._size = max(len(inode.data), inode.reserved_to)

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return self._size

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self._path)

    def append(self, data: Buffer) -> int:
        position = self._size
        stored_size = max(len(self._inode.data), self._inode.reserved_to)
        if stored_size < position:
            raise TruncatedFile(self._path, stored_size=stored_size, size=position)
        self._write(position, data)
        return position

    def read(self, position: int, length: int) -> bytes:
        self._files.check_read(self._path)
        data = bytes(self._inode.data[position : position + length])
        reserved = min(position + length, self._inode.reserved_to) - position
        return data.ljust(reserved, b"\0") if len(data) < reserved else data

    def read_nowait(self, position: int, length: int) -> bytes | None:
        disk = self._files.disk
        if disk.random.random() < disk.cold_read_probability:
            return None
        return self.read(position, length)

    def read_ahead(self, position: int, length: int) -> None:
        """Does nothing: a read of a simulated file takes no longer without it."""

    def write_at(self, position: int, data: Buffer) -> None:
        self._write(position, data)

    def truncate(self, size: int) -> None:
        self._files.check_change(self._path, takes_room=False)
        self._inode.cut(size)
        self._files.touch(self._inode)
        self._size = size

    def trim(self) -> None:
        """Does nothing: a simulated file has no reserved space."""

    def preallocate(self, size: int) -> None:
        self._files.check_change(self._path, takes_room=True)
        self._inode.reserved_to = max(size, self._inode.reserved_to)

    def stored_size(self) -> int:
        return len(self._inode.data)

    def sync(self) -> None:
        self._files.check_change(self._path, takes_room=False)
        self._files.disk.sync(self._path, self._inode)

    def close(self) -> None:
        """Does nothing: a simulated file holds no resources."""

    def _write(self, position: int, data: Buffer) -> None:
        self._files.check_change(self._path, takes_room=True)
        self._inode.write(position, data)
        self._files.touch(self._inode)
        self._size = max(self._size, position + len(data))


class _SimLock:
    __slots__ = ("_locks", "_path")

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.discard(self._path)


def _conforms(files: SimFiles, file: SimFile) -> tuple[Files, File]:
    """Never called. Makes the type checker verify that the ports are implemented."""
    return files, file
