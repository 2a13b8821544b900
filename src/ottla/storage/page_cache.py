"""Reads that never wait for the disk.

Positions are looked up on the thread that owns the node's state, which must not wait for a disk. So a lookup reads
from the page cache alone. If bytes are missing there, it raises `NotCached`. A worker then reads the region that the
exception names, and the lookup is repeated: see `cold_lookups`.
"""

from __future__ import annotations

from ottla.model.ports import File, FileRegion

__all__ = ["BLOCK_BYTES", "NotCached", "is_whole", "read_bytes"]

# A worker reads whole blocks of this size. A search in an index then finds most of its entries in one block, and a
# consumer that reads on finds the beginning of its next read.
BLOCK_BYTES = 256 * 1024


class NotCached(Exception):
    """A lookup needs the bytes of `region`, which have to be read from the disk first."""

    def __init__(self, region: FileRegion) -> None:
        super().__init__(f"{region} is not in the page cache")
        self.region = region


def read_bytes(file: File, position: int, length: int, *, may_wait: bool) -> bytes | bytearray:
    """`File.read`. Raises NotCached if the bytes have to be read from the disk, unless it `may_wait`."""
    if may_wait:
        return file.read(position, length)
    data = file.read_nowait(position, length)
    if data is None:
        start = position - position % BLOCK_BYTES
        end = position + length
        end += -end % BLOCK_BYTES
        raise NotCached(FileRegion(file, start, min(end, file.size) - start))
    return data


def is_whole(region: FileRegion) -> bool:
    """Reads the region into the page cache. False if the file is shorter than it should be. Called on a worker."""
    return len(region.read()) == region.length
