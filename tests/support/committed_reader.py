"""Reads a log as a read_committed consumer does: below the last stable offset, fetch by fetch, without the aborted
transactions that every fetch lists.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.control import read_end_transaction_marker
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.record import Record
from ottla.storage.log import PartitionLog

__all__ = ["committed_records"]


def committed_records(log: PartitionLog, *, max_bytes: int) -> Iterator[Record]:
    """The committed records from the log's start, read with fetches of at most `max_bytes`."""
    offset, stable = log.log_start_offset, log.last_stable_offset
    while offset < stable:
        read = log.read(offset, max_bytes=max_bytes, end_offset=stable)
        if read.region is None:
            return
        start = offset
        aborted = sorted(
            log.aborted_in_read(read, start=start, end_offset=stable), key=lambda transaction: transaction.first_offset
        )
        skipped: set[int] = set()
        for batch in iterate_batches(read.region.read()):
            header = batch.header
            while aborted and aborted[0].first_offset <= header.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if header.is_control:
                for record in iterate_records(batch):
                    marker = read_end_transaction_marker(record)
                    if marker is not None and not marker.is_commit:
                        skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                # The first batch may begin before the fetch offset.
                yield from (record for record in iterate_records(batch) if record.offset >= start)
            offset = header.next_offset
        assert offset > start, "a fetch has at least one whole batch"
