"""The ports of a node: clock, timers, threads, files, random numbers.

`ottla.host` implements them on the operating system, `ottla.sim` in a simulation. Lower layers never import `time`,
`random` or `threading` and never open a path, so that a whole node can be replayed from a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from errno import EIO
from random import Random
from typing import Any, Protocol, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.values import Value

__all__ = [
    "Buffer",
    "Clock",
    "DirectoryLocked",
    "File",
    "FileRegion",
    "Files",
    "Lane",
    "Lock",
    "Scheduler",
    "Timer",
    "TruncatedFile",
    "WorkerLanes",
    "Workers",
    "World",
]

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970; may jump."""

    def monotonic(self) -> float:
        """Monotonic time in seconds."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """Runs callbacks later on the thread that owns the node's state."""

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> object: ...

    def call_later(self, delay_seconds: float, callback: Callable[..., object], *arguments: Any) -> Timer: ...


class Workers(Protocol):
    """Threads for work that would block the event loop: fsync, cold reads, compaction, large decompressions."""

    def submit(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """Runs `function` on another thread; the result is delivered on the loop's thread."""


class Lane(Enum):
    """A kind of work with its own queue and threads, so that it never waits for work of another kind."""

    GENERAL = "general"
    """Flushes, checkpoints, deletions, opening of logs, host names."""
    READS = "reads"
    """Reads of logs from the disk: cold fetches, offsets for timestamps, loading of coordinators."""
    VALIDATION = "validation"
    """Decoding of produced records. Clients decide how much of it there is."""
    REGISTRY = "registry"
    """Questions to a Schema Registry. They wait for another machine, and clients decide how many there are."""
    COMPACTION = "compaction"
    METADATA = "metadata"
    """Writes of the metadata log and its snapshots."""
    LOGINS = "logins"
    """Checks of clients' logins. Strangers decide how much of it there is, and a check may wait for other machines."""
    PEER_LOGINS = "peer-logins"
    """Logins of this node at other nodes: keys, tokens and tickets, which may wait for other machines."""


class WorkerLanes(Workers, Protocol):
    """All threads of a node. `submit` uses the GENERAL lane."""

    def lane(self, lane: Lane) -> Workers: ...


class File(Protocol):
    """An open file with appends and positioned reads. `size` is tracked in memory, never queried from the disk."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def fileno(self) -> int:
        """The descriptor for `sendfile`; a simulated file raises OSError."""

    def append(self, data: Buffer) -> int:
        """Appends the bytes and returns their position.

        If the disk is full or fails, the file is truncated to its previous size and OSError is raised. TruncatedFile
        is raised, and nothing is written, if another program has truncated the file.
        """

    def read(self, position: int, length: int) -> bytes:
        """Reads up to `length` bytes, fewer only at the end of the file. May block on the disk."""

    def read_nowait(self, position: int, length: int) -> bytes | bytearray | None:
        """Like `read`, but returns None if the bytes are not in the page cache."""

    def read_ahead(self, position: int, length: int) -> None:
        """Requests the bytes from the disk without waiting for them; must be called on a worker, as requests queue."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def trim(self) -> None:
        """Releases preallocated disk space after the end of the file, which will not grow soon."""

    def preallocate(self, size: int) -> None:
        """Reserves disk space up to `size` bytes. The file's `size` and the position of appends do not change."""

    def stored_size(self) -> int:
        """The size on disk, or the position of the first hole; -1 if the file was removed. Reads no content."""

    def sync(self) -> None:
        """Blocks until all writes are durable; must be called on a worker."""

    def close(self) -> None: ...


class TruncatedFile(OSError):
    """Another program has truncated a file that is being written."""

    def __init__(self, path: str, *, stored_size: int, size: int) -> None:
        super().__init__(EIO, f"was truncated: it has lost bytes from position {stored_size} to {size}", path)


class DirectoryLocked(OSError):
    """Another process holds the lock of the directory."""


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    """The file system. Every method may raise OSError."""

    on_short_file: Callable[[str], None] | None
    """Called with the path of a file that ends before a region that was to be sent."""

    def open(self, path: str, *, create: bool = True) -> File: ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]: ...

    def make_directories(self, path: str) -> None: ...

    def size_of(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def stamp_of(self, path: str) -> int:
        """A number that changes with the content of a file, or with the names in a directory.

        -1 if there is no such file or directory.
        """

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replaces the file atomically: temporary file, fsync if durable, rename, fsync of the directory."""

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> Lock:
        """Takes the exclusive lock of a lock file, or raises DirectoryLocked."""

    def free_bytes(self, path: str) -> tuple[int, int]:
        """Total and usable bytes of the path's volume."""


class FileRegion:
    """A range of bytes in a file, which is sent with `sendfile` without being read into Python."""

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


class World(Value):
    """All ports of a node in one value, provided by `host` or `sim`."""

    clock: Clock
    scheduler: Scheduler
    workers: WorkerLanes
    files: Files
    random: Random
