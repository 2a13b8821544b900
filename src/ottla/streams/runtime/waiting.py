"""Rows of a task with several input partitions that wait for rows of other partitions (`max.task.idle.ms`, KIP-695).

A task processes the row with the smallest timestamp first. If one of its partitions has no row here, but has rows at
the broker, the row that comes next is not known: the other rows wait until it is fetched. A partition without rows here
and at the broker is waited for at most `max.task.idle.ms`; -1 disables waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.model.ids import TopicPartition
from ottla.streams.columnar import records_of

__all__ = ["WaitingRows"]

# A partition with more waiting rows or bytes is fetched again when they are processed.
_ROWS_MAX = 50_000
_BYTES_MAX = 8 * 1024 * 1024


# Gives the timestamps of records as an extractor sees them.
TimestampReader = Callable[[Iterable[Any]], list[int]]


class WaitingRows:
    """`readers` are those of partitions whose source has a timestamp extractor."""

    def __init__(
        self,
        places: Iterable[TopicPartition],
        idle_ms: int,
        readers: Mapping[TopicPartition, TimestampReader] = MappingProxyType({}),
    ) -> None:
        self._rows: dict[TopicPartition, list[pa.RecordBatch]] = {place: [] for place in places}
        # The timestamps of these rows.
        self._times: dict[TopicPartition, list[Any]] = {place: [] for place in self._rows}
        self._readers = readers
        self._idle_ms = idle_ms
        # Since when a partition is empty here and at the broker.
        self._idle_since: dict[TopicPartition, int] = {}

    def add(self, place: TopicPartition, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            read = self._readers.get(place)
            self._rows[place].append(rows)
            self._times[place].append(
                _milliseconds(rows) if read is None else np.array(read(records_of(rows)), np.int64)
            )

    def first_offset(self, place: TopicPartition) -> int | None:
        """The first offset of the rows that wait, None if there are no rows."""
        rows = self._rows.get(place)
        return rows[0].column("offset")[0].as_py() if rows else None

    def full(self) -> set[TopicPartition]:
        return {
            place
            for place, rows in self._rows.items()
            if sum(batch.num_rows for batch in rows) > _ROWS_MAX or sum(batch.nbytes for batch in rows) > _BYTES_MAX
        }

    def take(
        self, now_ms: int, lag_of: Callable[[TopicPartition], int | None]
    ) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """The rows before which no other row can come any more. `lag_of` counts the records at the broker."""
        awaited = [place for place in self._rows if self._is_awaited(place, now_ms, lag_of(place))]
        waiting = {place: _joined(rows) for place, rows in self._rows.items() if rows}
        if any(place not in waiting for place in awaited):
            return []
        own = {place: np.concatenate(self._times[place]) for place in waiting}
        times = {place: np.maximum.accumulate(partition_times) for place, partition_times in own.items()}
        # The first awaited partition to run out of rows ends this round.
        end = min((int(times[place][-1]) for place in awaited), default=None)
        ready = []
        for place, rows in waiting.items():
            count = rows.num_rows if end is None else int(np.searchsorted(times[place], end, side="right"))
            self._rows[place] = [rows.slice(count)] if count < rows.num_rows else []
            self._times[place] = [own[place][count:]] if count < rows.num_rows else []
            if count:
                ready.append((place, rows.slice(0, count)))
        return ready

    def _is_awaited(self, place: TopicPartition, now_ms: int, lag: int | None) -> bool:
        """True if the partition may have a row that comes before rows of other partitions."""
        if lag is None or lag > 0:
            self._idle_since.pop(place, None)
            return True
        if not self._idle_ms:
            return False
        if self._rows[place]:
            self._idle_since.pop(place, None)
            return True
        return now_ms - self._idle_since.setdefault(place, now_ms) < self._idle_ms


def _joined(rows: list[pa.RecordBatch]) -> pa.RecordBatch:
    return rows[0] if len(rows) == 1 else pa.concat_batches(rows)


def _milliseconds(rows: pa.RecordBatch) -> Any:
    return np.asarray(rows.column("timestamp").cast(pa.int64())) // 1000
