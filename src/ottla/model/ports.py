"""What a node needs from the world around it: time, timers, threads, files, chance.

`ottla.host` implements these on the operating system, `ottla.sim` on a virtual one. Code below them never imports
`time`, `random`, `threading` or opens a path itself, so that a whole node can be replayed from a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from ottla.model.deferred import Deferred

__all__ = [
    "Buffer",
    "Clock",
    "DirectoryLocked",
    "File",
    "FileRegion",
    "Files",
    "Lock",
    "Scheduler",
    "Timer",
    "Workers",
    "World",
]

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch; may jump."""

    def monotonic(self) -> float:
        """Seconds that never go backwards."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """Runs callbacks later on the one thread that owns the node's state."""

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> object: ...

    def call_later(self, delay_seconds: float, callback: Callable[..., object], *arguments: Any) -> Timer: ...


class Workers(Protocol):
    """Threads for what would stall the loop: fsync, cold reads, compaction, decompression of large batches."""

    def submit(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """Runs `function` on another thread; the result is delivered on the loop's thread."""


class File(Protocol):
    """An open file that is appended to and read at positions. `size` is kept by us, never asked of the disk."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def fileno(self) -> int:
        """For `sendfile`; a simulated file raises OSError."""

    def append(self, *buffers: Buffer) -> int:
        """Writes all buffers at the end and returns the position where they begin.

        All or nothing: when the disk refuses (full, failed), what was written is cut off again and OSError raised.
        """

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file. May block on the disk."""

    def read_nowait(self, position: int, length: int) -> bytes | bytearray | None:
        """Like `read`, or None when the bytes are not in the page cache."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def trim(self) -> None:
        """Gives back room on disk that the file has kept to grow: it will not, or not for a while."""

    def preallocate(self, size: int) -> None:
        """Reserves disk space up to `size` bytes, read as zeros; `size` and where appends go stay as they are."""

    def sync(self) -> None:
        """Blocks until everything written is durable: call it on a worker."""

    def close(self) -> None: ...


class DirectoryLocked(OSError):
    """Another process holds the lock."""


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    """The file system as storage sees it; every method may raise OSError."""

    def open(self, path: str, *, create: bool = True) -> File: ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]: ...

    def make_directories(self, path: str) -> None: ...

    def size_of(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replaces the file as a whole: temporary file, fsync (when durable), rename, fsync of the directory."""

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> Lock:
        """Takes the exclusive lock of a lock file, or raises DirectoryLocked."""

    def free_bytes(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that holds the path."""


class FileRegion:
    """A run of bytes in a file, sent from file to socket without passing through Python."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileRegion({self.file.path!r}, position={self.position}, length={self.length})"

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything outside the node, in one value that is handed down from `host` or `sim`."""

    clock: Clock
    scheduler: Scheduler
    workers: Workers
    files: Files
    random: Random
