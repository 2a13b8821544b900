"""What can go wrong with a log, sorted by who has to act.

An `OSError` is an operating error and ends here: storage decides what it means, and tells the rest of the node with
one of these. `DiskFull` is a condition that passes (nothing was written, reads go on, the next append may succeed);
`LogDirectoryOffline` is not (every other input/output error takes the whole directory out of service). Clients see
both as KAFKA_STORAGE_ERROR, which they retry.
"""

from __future__ import annotations

import errno

from ottla.model.errors import ErrorCode, KafkaError

__all__ = [
    "CorruptLog",
    "DirectoryRefused",
    "DiskFull",
    "LogDirectoryOffline",
    "StorageError",
    "is_disk_full",
    "is_shortage",
]

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class StorageError(KafkaError):
    """The disk stood in the way; a client may try again."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DiskFull(StorageError):
    """The volume or quota is full: nothing was written, and the log goes on as soon as there is room."""


class LogDirectoryOffline(StorageError):
    """The log directory failed and is out of service until the node restarts."""


class CorruptLog(KafkaError):
    """Bytes in a segment are not record batches; they are refused, never served."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class DirectoryRefused(Exception):
    """A log directory that this node may not use: locked by another, or formatted for another node or cluster."""


def is_disk_full(error: OSError) -> bool:
    return error.errno in _DISK_FULL


def is_shortage(error: OSError) -> bool:
    """The process or the machine has run out of descriptors or memory: no fault of the disk, and it passes."""
    return error.errno in _SHORTAGE
