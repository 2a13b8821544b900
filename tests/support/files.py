"""An in-memory file system behind the `Files` port, with failures on request.

Synced content is kept apart from written content, so that a test can simulate a power cut (`lose_unsynced`), and
bytes count against a capacity (`capacity_bytes`), so that the disk can be full. A test can make any operation raise:
`files.fail_next("append", OSError(errno.EIO, ...))`, or for all paths under a directory
`files.break_directory(path)`.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from zlib import crc32

from ottla.model.ports import Buffer, DirectoryLocked, File, Files, Lock, TruncatedFile

__all__ = ["MemoryFile", "MemoryFiles"]


class _Node:
    """A file's content, shared by all open files of this name; it stays readable after the name is removed."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.modified_ms = 0
        self.reserved_to = 0


class MemoryFile:
    def __init__(self, files: MemoryFiles, path: str, node: _Node) -> None:
        self._files = files
        self._path = path
        self._node = node
        self._size = max(len(node.data), node.reserved_to)
        self.is_closed = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return self._size

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor", self._path)

    def append(self, data: Buffer) -> int:
        position = self._size
        stored_size = max(len(self._node.data), self._node.reserved_to)
        if stored_size < position:
            raise TruncatedFile(self._path, stored_size=stored_size, size=position)
        self._write("append", position, data)
        return position

    def read(self, position: int, length: int) -> bytes:
        self._files.check("read", self._path)
        data = bytes(self._node.data[position : position + length])
        reserved = min(position + length, self._node.reserved_to) - position
        return data.ljust(reserved, b"\0") if len(data) < reserved else data

    def read_nowait(self, position: int, length: int) -> bytes | None:
        return None if self._files.is_cold else self.read(position, length)

    def read_ahead(self, position: int, length: int) -> None:
        """Does nothing."""

    def write_at(self, position: int, data: Buffer) -> None:
        self._write("write", position, data)

    def truncate(self, size: int) -> None:
        self._files.check("truncate", self._path)
        data = self._node.data
        if size < len(data):
            del data[size:]
        else:
            data.extend(bytes(size - len(data)))
        self._node.reserved_to = 0
        self._size = size

    def trim(self) -> None:
        """Does nothing: no room is reserved beyond the file's end."""

    def preallocate(self, size: int) -> None:
        self._files.check("preallocate", self._path)
        self._node.reserved_to = max(size, self._node.reserved_to)

    def stored_size(self) -> int:
        return len(self._node.data) if self._node in self._files.nodes.values() else -1

    def sync(self) -> None:
        self._files.check("sync", self._path)
        self._files.sync_count += 1
        self._node.synced = bytes(self._node.data)

    def close(self) -> None:
        self.is_closed = True

    def _write(self, operation: str, position: int, content: Buffer) -> None:
        self._files.check(operation, self._path)
        data = self._node.data
        grows = max(0, position + len(content) - len(data))
        self._files.check_room(grows, self._path)
        if position > len(data):
            data.extend(bytes(position - len(data)))
        data[position : position + len(content)] = content
        self._size = max(self._size, position + len(content))
        self._node.modified_ms = self._files.now_ms()


class _MemoryLock:
    def __init__(self, files: MemoryFiles, path: str) -> None:
        self._files = files
        self._path = path

    def release(self) -> None:
        self._files.locks.discard(self._path)


class MemoryFiles:
    """Implements `Files`; paths are plain strings with slashes."""

    def __init__(self, *, capacity_bytes: int | None = None, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.nodes: dict[str, _Node] = {}
        self.directories: set[str] = {"", "/"}
        # By directory: the number of changes to its names.
        self.name_changes: Counter[str] = Counter()
        self.locks: set[str] = set()
        self.capacity_bytes = capacity_bytes
        self.now_ms = now_ms
        self.is_cold = False
        self.on_short_file: Callable[[str], None] | None = None
        self.sync_count = 0
        self.open_count = 0
        self._failures: list[tuple[str, OSError, str]] = []
        self._broken: dict[str, OSError] = {}

    # ---- faults for tests

    def fail_next(self, operation: str, error: OSError, *, path_contains: str = "") -> None:
        """Makes the next such operation ("append", "read", "sync", "open", "rename"...) raise the error."""
        self._failures.append((operation, error, path_contains))

    def break_directory(self, path: str, error: OSError | None = None) -> None:
        """Makes every operation under the directory fail from now on."""
        self._broken[path] = error or OSError(errno.EIO, "input/output error", path)

    def lose_unsynced(self) -> None:
        """Simulates the worst power cut: only synced content is left."""
        for node in self.nodes.values():
            node.data = bytearray(node.synced)
            node.reserved_to = 0

    def used_bytes(self) -> int:
        return sum(len(node.data) for node in self.nodes.values())

    def corrupt(self, path: str, position: int, mask: int) -> None:
        self.nodes[path].data[position] ^= mask

    # ---- checks of the files

    def check(self, operation: str, path: str) -> None:
        for broken, error in self._broken.items():
            if path == broken or path.startswith(broken + "/"):
                raise error
        for number, (failing, error, contains) in enumerate(self._failures):
            if failing == operation and contains in path:
                del self._failures[number]
                raise error

    def check_room(self, grows: int, path: str) -> None:
        if grows and self.capacity_bytes is not None and self.used_bytes() + grows > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "no space left on device", path)

    # ---- the port

    def open(self, path: str, *, create: bool = True) -> File:
        self.check("open", path)
        node = self.nodes.get(path)
        if node is None:
            if not create or _parent(path) not in self.directories:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.check("create", path)
            self.name_changes[_parent(path)] += 1
            node = self.nodes[path] = _Node()
            node.modified_ms = self.now_ms()
        self.open_count += 1
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        return path in self.nodes or path in self.directories

    def is_directory(self, path: str) -> bool:
        self.check("stat", path)
        return path in self.directories

    def list_directory(self, path: str) -> list[str]:
        self.check("list", path)
        if path not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        prefix = path.rstrip("/") + "/"
        inside = {*self.nodes, *self.directories}
        return sorted({name[len(prefix) :].split("/")[0] for name in inside if name.startswith(prefix)} - {""})

    def make_directories(self, path: str) -> None:
        self.check("mkdir", path)
        while path and path not in self.directories:
            self.directories.add(path)
            path = _parent(path)

    def size_of(self, path: str) -> int:
        node = self._node(path)
        return max(len(node.data), node.reserved_to)

    def modified_ms(self, path: str) -> int:
        return self._node(path).modified_ms

    def stamp_of(self, path: str) -> int:
        self.check("stat", path)
        if path in self.directories:
            return self.name_changes[path]
        return crc32(self.nodes[path].data) if path in self.nodes else -1

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        self.name_changes.update((_parent(source), _parent(target)))
        if source in self.nodes:
            self.nodes[target] = self.nodes.pop(source)
            return
        if source not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        prefix = source + "/"
        for name in [name for name in self.nodes if name.startswith(prefix)]:
            self.nodes[target + "/" + name[len(prefix) :]] = self.nodes.pop(name)
        for name in [name for name in self.directories if name == source or name.startswith(prefix)]:
            self.directories.remove(name)
            self.directories.add(target + name[len(source) :])

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self.name_changes[_parent(path)] += 1
        self._node(path)
        del self.nodes[path]

    def remove_tree(self, path: str) -> None:
        self.check("remove", path)
        if path not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        prefix = path + "/"
        self.nodes = {name: node for name, node in self.nodes.items() if not name.startswith(prefix)}
        self.directories = {name for name in self.directories if name != path and not name.startswith(prefix)}

    def read_bytes(self, path: str) -> bytes:
        self.check("read", path)
        return bytes(self._node(path).data)

    def write_atomically(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.check("write_atomically", path)
        if _parent(path) not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.check_room(len(data), path)
        node = _Node()
        node.data = bytearray(data)
        node.modified_ms = self.now_ms()
        if durable:
            node.synced = bytes(data)
            self.sync_count += 1
        elif path in self.nodes:
            node.synced = self.nodes[path].synced
        self.name_changes[_parent(path)] += 1
        self.nodes[path] = node

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)

    def lock(self, path: str) -> Lock:
        self.check("lock", path)
        if path in self.locks:
            raise DirectoryLocked(errno.EAGAIN, "the lock is held by another process", path)
        self.locks.add(path)
        return _MemoryLock(self, path)

    def free_bytes(self, path: str) -> tuple[int, int]:
        self.check("free", path)
        total = 1 << 40 if self.capacity_bytes is None else self.capacity_bytes
        return total, total - self.used_bytes()

    def _node(self, path: str) -> _Node:
        try:
            return self.nodes[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _conforms(files: MemoryFiles, file: MemoryFile) -> tuple[Files, File]:
    """Never called: with this function the type checker proves that the ports are implemented."""
    return files, file
