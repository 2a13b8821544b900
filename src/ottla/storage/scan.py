"""Scans the batches of a segment file, by their headers or with every byte checked.

`scan_headers` is for lookups: it reads only headers (a page at a time, so that small batches share a read) and trusts
the lengths, but raises at the end of the file or where there is no batch. `scan_checked` is for recovery: it reads
everything, compares every checksum, and stops at the first incomplete batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.model.ports import File
from ottla.records.errors import CorruptRecords
from ottla.records.header import (
    BATCH_LENGTH_POSITION,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
)
from ottla.records.iterate import Batch, verify_checksum
from ottla.storage.errors import CorruptLog
from ottla.storage.page_cache import read_bytes

__all__ = ["read_header_at", "scan_all", "scan_checked", "scan_headers"]

_HEADER_PAGE_BYTES = 4096
_CHECK_CHUNK_BYTES = 1 << 20


def read_header_at(file: File, position: int, end: int, *, may_wait: bool = True) -> BatchHeader:
    """The header of the batch at `position`. Raises CorruptLog if there is no batch that ends at or before `end`.

    Raises NotCached if the header has to be read from the disk, unless it `may_wait`.
    """
    length = min(HEADER_SIZE, end - position)
    return _parse(read_bytes(file, position, length, may_wait=may_wait), 0, position, end, file)


def scan_headers(file: File, position: int, end: int, *, may_wait: bool = True) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch from `position` to `end`. Raises CorruptLog at an incomplete batch.

    Raises NotCached if a header has to be read from the disk, unless it `may_wait`.
    """
    page: bytes | bytearray = b""
    page_position = position
    while position < end:
        inside = position - page_position
        if inside + HEADER_SIZE > len(page):
            length = min(_HEADER_PAGE_BYTES, end - position)
            page = read_bytes(file, position, length, may_wait=may_wait)
            page_position, inside = position, 0
        header = _parse(page, inside, position, end, file)
        yield position, header
        position += LENGTH_OVERHEAD + header.batch_length


def scan_checked(file: File, position: int, end: int) -> Iterator[Batch]:
    """Every intact batch from `position` to the end of the file or the first incomplete batch.

    The view of a batch is valid until the next batch is read.
    """
    try:
        for batch, is_intact in scan_all(file, position, end):
            if not is_intact:
                return
            yield batch
    except CorruptLog:
        return


def scan_all(file: File, position: int, end: int) -> Iterator[tuple[Batch, bool]]:
    """Every batch with whether its checksum matches, as in `scan_checked`. Raises CorruptLog at an incomplete batch."""
    chunk = memoryview(b"")
    chunk_position = position
    while position < end:
        inside = position - chunk_position
        if inside + HEADER_SIZE > len(chunk):
            chunk = memoryview(file.read(position, min(_CHECK_CHUNK_BYTES, end - position)))
            chunk_position, inside = position, 0
        header = _parse(chunk, inside, position, end, file)
        size = header.size
        if inside + size > len(chunk):
            chunk = memoryview(file.read(position, max(size, min(_CHECK_CHUNK_BYTES, end - position))))
            chunk_position, inside = position, 0
            if len(chunk) < size:
                raise CorruptLog(f"{file.path} ends inside the batch of {size} bytes at position {position}", file.path)
        data = chunk[inside : inside + size]
        yield Batch(header, position, data), verify_checksum(data, header)
        position += size


def _parse(page: bytes | bytearray | memoryview, inside: int, position: int, end: int, file: File) -> BatchHeader:
    remaining = len(page) - inside
    if remaining >= HEADER_SIZE and page[inside + MAGIC_POSITION] == 2:
        header = BatchHeader(*HEADER.unpack_from(page, inside))
        if header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD or header.last_offset_delta < 0:
            raise CorruptLog(f"{file.path} holds no record batch at position {position}", file.path)
    else:
        try:
            header = read_header(page, inside)
        except CorruptRecords as error:
            reason = f"{file.path} holds no record batch at position {position}: {error.message}"
            raise CorruptLog(reason, file.path) from None
    if position + LENGTH_OVERHEAD + header.batch_length > end or header.base_offset < 0:
        length = int.from_bytes(page[inside + BATCH_LENGTH_POSITION : inside + LENGTH_OVERHEAD], "big", signed=True)
        raise CorruptLog(f"{file.path} ends inside the batch of {length} bytes at position {position}", file.path)
    return header
