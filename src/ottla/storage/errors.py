"""Errors of logs and log directories.

An `OSError` does not leave this package: storage translates it into one of these errors. `DiskFull` is temporary:
nothing was written, reads continue, and the next append may succeed. `LogDirectoryOffline` is permanent: any other I/O
error takes the whole directory out of service. Clients get KAFKA_STORAGE_ERROR for both, and retry.
"""

from __future__ import annotations

import errno

from ottla.model.errors import ErrorCode, KafkaError

__all__ = [
    "CorruptLog",
    "DISK_RETRY_SECONDS",
    "DirectoryRefused",
    "DiskFull",
    "LogDirectoryOffline",
    "StorageError",
    "is_disk_full",
    "is_of_one_path",
    "is_shortage",
    "is_temporary",
]

# The pause before work is repeated that a full disk, or a shortage of descriptors or memory, has stopped: short for the
# clients that wait for it, and long enough that repeating it for thousands of logs does not occupy the loop.
DISK_RETRY_SECONDS = 1.0

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_OF_ONE_PATH = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.EPERM,
    }
)


class StorageError(KafkaError):
    """A disk failed; a client may retry."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DiskFull(StorageError):
    """The volume or quota is full: nothing was written, and the log continues as soon as there is room."""


class LogDirectoryOffline(StorageError):
    """The log directory failed and is out of service until the node restarts."""


class CorruptLog(KafkaError):
    """A segment contains bytes that are not record batches and are never served. `path` is the log file."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)
        self.path = path


class DirectoryRefused(Exception):
    """This node may not use a log directory: another process has locked it, or it belongs to another node or
    cluster."""


def is_disk_full(error: OSError) -> bool:
    return error.errno in _DISK_FULL


def is_shortage(error: OSError) -> bool:
    """True if the process or the machine lacks descriptors or memory, which is temporary and no fault of the disk."""
    return error.errno in _SHORTAGE


def is_temporary(error: OSError) -> bool:
    """The disk is full, or there are no free descriptors or memory: the same call may succeed later."""
    return is_disk_full(error) or is_shortage(error)


def is_of_one_path(error: OSError) -> bool:
    """True if a file is missing, of the wrong kind or not permitted, which affects no other partition."""
    return error.errno in _OF_ONE_PATH
