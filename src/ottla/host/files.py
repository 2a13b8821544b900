"""The operating system's file system behind the `Files` port.

Appends are positioned writes (`pwrite`) at a size that is kept here, so a file may have been preallocated beyond it,
and a partial write is truncated before the error is raised. A file is closed by `close`, or when the last reference to
it is gone: a `FileRegion` in an outgoing response keeps its descriptor open even after the log has deleted the segment
or dropped it from the pool of open files.

The kernel's own read-ahead is off. It works inside any call that reaches the end of what was read ahead, so a sendfile
or a read of one byte by the event loop would allocate the memory for the next megabytes and queue them at the disk.
Workers read ahead instead (`OsFile.read_ahead`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ottla.host.reserving import GROWN_BYTES, NO_END, room_for
from ottla.model.ports import Buffer, DirectoryLocked, File, Files, Lock, TruncatedFile

__all__ = ["OsFile", "OsFiles", "OsLock", "raise_open_files_limit"]

# An upper bound, because the hard limit may be "unlimited".
_OPEN_FILES_MAX = 1 << 17

# The unit of `st_blocks`, and the blocks of a file's own metadata.
_BLOCK_BYTES = 512
_BLOCKS_SLACK_BYTES = 64 * 1024

_READ_BYTES = 1 << 16

# A worker that reads a file sequentially reads ahead four times the size of its read, up to this size.
_AHEAD_FACTOR = 4
_AHEAD_BYTES_MAX = 2 << 20

# None if the system has no such call. The kernel's read-ahead then stays on.
_ADVISE: Callable[[int, int, int, int], None] | None = getattr(os, "posix_fadvise", None)
_RANDOM: int = getattr(os, "POSIX_FADV_RANDOM", 0)
_WILL_NEED: int = getattr(os, "POSIX_FADV_WILLNEED", 0)

_NO_NOWAIT = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def raise_open_files_limit() -> int:
    """Raises the limit of open files and sockets to the hard limit; returns the new limit.

    The soft limit is 1,024 on many machines for the sake of programs that use `select`, which a broker does not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
    return wanted


class OsFile:
    """One open descriptor. Any thread may read; only the thread that owns the log may write."""

    __slots__ = (
        "_descriptor",
        "_has_reserve",
        "_path",
        "_read_end",
        "_read_start",
        "_reads_nowait",
        "_room",
        "_size",
    )

    def __init__(self, path: str, *, create: bool) -> None:
        self._descriptor = -1
        self._path = path
        self._reads_nowait = hasattr(os, "RWF_NOWAIT")
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._descriptor = os.open(path, flags, 0o644)
        _advise(self._descriptor, 0, 0, _RANDOM)
        # The range of the last `read`. With several readers at a time, too little or too much is read ahead.
        self._read_start = self._read_end = 0
        status = os.fstat(self._descriptor)
        self._size = status.st_size
        # The end of the reserved room, and whether room was ever reserved, possibly by an earlier process.
        self._room = max(GROWN_BYTES, self._size)
        self._has_reserve = status.st_blocks * _BLOCK_BYTES > self._size + _BLOCKS_SLACK_BYTES

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OsFile({self._path!r}, size={self._size})"

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._descriptor

    def append(self, data: Buffer) -> int:
        position, descriptor = self._size, self._descriptor
        # A write behind the end of the file would leave zeros before it.
        stored_size = os.lseek(descriptor, 0, os.SEEK_END)
        if stored_size < position:
            raise TruncatedFile(self._path, stored_size=stored_size, size=position)
        try:
            if os.pwrite(descriptor, data, position) != len(data):
                self._append_slowly(data)
        except OSError:
            self._cut_back()
            raise
        self._size = end = position + len(data)
        if end > self._room:
            self._room = room_for(descriptor, end)
            self._has_reserve = self._has_reserve or self._room != NO_END
        return position

    def _append_slowly(self, data: Buffer) -> None:
        """Continues after a short write until all bytes are written or an error is raised."""
        position = self._size
        remaining = memoryview(data).cast("B")
        while remaining:
            written = os.pwrite(self._descriptor, remaining, position)
            if written == 0:
                raise OSError(errno.ENOSPC, "the disk accepted no byte", self._path)
            position += written
            remaining = remaining[written:]

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError:
            # The first error is raised. Bytes beyond `size` are overwritten by the next append; after a crash they
            # are a torn tail, which recovery truncates.
            return

    def read(self, position: int, length: int) -> bytes:
        end = position + length
        if self._read_start < position <= self._read_end:
            self.read_ahead(end, min(_AHEAD_FACTOR * length, _AHEAD_BYTES_MAX))
        self._read_start, self._read_end = position, end
        data = os.pread(self._descriptor, length, position)
        if len(data) < length and data:
            chunks = [data]
            read = len(data)
            while read < length:
                chunk = os.pread(self._descriptor, length - read, position + read)
                if not chunk:
                    break
                chunks.append(chunk)
                read += len(chunk)
            return b"".join(chunks)
        return data

    def read_nowait(self, position: int, length: int) -> bytes | bytearray | None:
        if not self._reads_nowait:
            return self.read(position, length)
        buffer = bytearray(length)
        try:
            read = os.preadv(self._descriptor, [buffer], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise
            # A file system without the flag (tmpfs on some kernels): in memory, or unknown.
            self._reads_nowait = False
            return self.read(position, length)
        if read < length and position + read < self._size:
            return None
        del buffer[read:]
        return buffer

    def read_ahead(self, position: int, length: int) -> None:
        _advise(self._descriptor, position, length, _WILL_NEED)

    def write_at(self, position: int, data: Buffer) -> None:
        remaining = memoryview(data).cast("B")
        while remaining:
            written = os.pwrite(self._descriptor, remaining, position)
            position += written
            remaining = remaining[written:]
        self._size = max(self._size, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._size = size
        self._has_reserve = False
        if self._room != NO_END:
            self._room = max(GROWN_BYTES, size)

    def trim(self) -> None:
        if self._has_reserve:
            try:
                self.truncate(self._size)
            except OSError:
                # An error of the disk will show in the next read or write; unused reserved room is harmless.
                self._has_reserve = False

    def preallocate(self, size: int) -> None:
        if size > self._size:
            os.posix_fallocate(self._descriptor, 0, size)

    def stored_size(self) -> int:
        status = os.fstat(self._descriptor)
        if status.st_nlink == 0:
            return -1
        return os.lseek(self._descriptor, 0, os.SEEK_HOLE) if status.st_size else 0

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _advise(descriptor: int, position: int, length: int, advice: int) -> None:
    """Gives the kernel a hint. A refusal (a kernel or a sandbox without the call) changes the speed only."""
    if _ADVISE is not None:
        with suppress(OSError):
            _ADVISE(descriptor, position, length, advice)


class OsLock:
    """An exclusive `flock`, which ends with the process in any case."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Apache Kafka takes a POSIX record lock on the same file; both locks together exclude both systems.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise DirectoryLocked(error.errno, "the lock is held by another process", path) from None
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsFiles:
    """`Files` on the operating system."""

    def __init__(self) -> None:
        self.on_short_file: Callable[[str], None] | None = None

    def open(self, path: str, *, create: bool = True) -> File:
        return OsFile(path, create=create)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        # A missing directory is "no"; an error of the disk is raised.
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except FileNotFoundError:
            return False

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        try:
            # Mostly only the last directory is missing: `makedirs` would look for its parent first.
            os.mkdir(path)
        except OSError:
            os.makedirs(path, exist_ok=True)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def stamp_of(self, path: str) -> int:
        # Unlike the time of modification, no program can set `ctime`. Some file systems know only its seconds, so the
        # size counts as well. The hash of integers is the same in every process.
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return -1
        return hash((status.st_ctime_ns, status.st_size, status.st_ino))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        # `shutil.rmtree` would import the archive formats; this is enough for a partition's directory.
        for directory, _, names in os.walk(path, topdown=False):
            for name in names:
                os.remove(os.path.join(directory, name))
            os.rmdir(directory)

    def read_bytes(self, path: str) -> bytes:
        # Less than half of the cost of `open`: a start reads tens of thousands of small files.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return b"".join(iter(partial(os.read, descriptor, _READ_BYTES), b""))
        finally:
            os.close(descriptor)

    def write_atomically(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        if durable:
            self.sync_directory(os.path.dirname(path))

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> Lock:
        return OsLock(path)

    def free_bytes(self, path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def _conforms(files: OsFiles, file: OsFile) -> tuple[Files, File]:
    """Never called. Makes the type checker verify that the ports are implemented."""
    return files, file
