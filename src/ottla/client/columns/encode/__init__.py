"""Encodes Arrow columns to record batches: `TopicEncoder` takes the rows of one topic and returns full batches.

`_native` is compiled when the package is installed. Without a compiler its twin `python` does the work; `COMPILED` is
True if `_native` is in use. See README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.columns.encode import python
from ottla.client.columns.encode.columns import bytes_column, headers_column, partition_column, timestamp_column
from ottla.client.producer.batch import EncodedRecords
from ottla.records.varint import append_varint

try:
    from ottla.client.columns.encode import _native
except ImportError:
    COMPILED = False
else:
    COMPILED = True

if TYPE_CHECKING:
    import pyarrow

__all__ = ["COMPILED", "EncodedBatch", "TopicEncoder"]


class EncodedBatch(NamedTuple):
    """The encoded records of a batch. The producer adds header, compression and checksum."""

    partition: int
    records: EncodedRecords


class TopicEncoder:
    """The open batches of one topic.

    `available` are the partitions that keyless records may go to; `extra_headers` are added to every record.
    """

    def __init__(
        self,
        *,
        partitions: int,
        available: Sequence[int],
        batch_bytes: int,
        seed: int,
        extra_headers: Sequence[tuple[str, bytes]] = (),
        compiled: bool = COMPILED,
    ) -> None:
        kind = _native.Encoder if compiled else python.Encoder
        self._encoder: _native.Encoder | python.Encoder = kind(
            partitions=partitions,
            limit=batch_bytes,
            available=tuple(available) or tuple(range(partitions)),
            seed=seed,
        )
        self._suffix = _encoded_headers(extra_headers)
        self._suffix_count = len(extra_headers)

    def encode(self, rows: pyarrow.RecordBatch, *, now_ms: int) -> list[EncodedBatch]:
        """Adds rows; the columns are `key`, `value`, `headers`, `timestamp` and `partition`."""
        names = rows.schema.names
        full = self._encoder.encode(
            rows=rows.num_rows,
            key=bytes_column(rows.column("key")) if "key" in names else None,
            value=bytes_column(rows.column("value")),
            headers=headers_column(rows.column("headers")) if "headers" in names else None,
            timestamp=timestamp_column(rows.column("timestamp")) if "timestamp" in names else None,
            partition=partition_column(rows.column("partition")) if "partition" in names else None,
            suffix=self._suffix,
            suffix_count=self._suffix_count,
            now_ms=now_ms,
        )
        return [EncodedBatch(batch[0], EncodedRecords(*batch[1:])) for batch in full]

    def finish(self) -> list[EncodedBatch]:
        """The remaining open batches."""
        return [EncodedBatch(batch[0], EncodedRecords(*batch[1:])) for batch in self._encoder.finish()]


def _encoded_headers(headers: Sequence[tuple[str, bytes]]) -> bytes:
    target = bytearray()
    for name, content in headers:
        for piece in (name.encode(), content):
            append_varint(target, len(piece))
            target += piece
    return bytes(target)
