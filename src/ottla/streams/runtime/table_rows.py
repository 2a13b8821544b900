"""Records of a changelog as Arrow columns: applied to a store, or turned into the rows of its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.streams.disk.keys import KEY_PREFIX, SHORT_KEY_BYTES_MAX
from ottla.streams.state.segmented import SegmentedStore
from ottla.streams.state.segments import SEGMENT_PREFIX_BYTES, segment_prefixes
from ottla.streams.state.store import RowForm, Store
from ottla.streams.state.window_runs import fixed_bytes

__all__ = ["apply_rows", "table_rows"]

_SLICE_ROWS = 65_536
_EMPTY = pa.scalar(b"", pa.binary())


def apply_rows(store: Store, batch: pa.RecordBatch) -> None:
    times = (np.asarray(batch.column("timestamp").cast(pa.int64())) // 1000).tolist()
    store.restore_many(batch.column("key").to_pylist(), batch.column("value").to_pylist(), times)


def table_rows(
    batches: Sequence[pa.RecordBatch], store: Store
) -> tuple[Iterable[tuple[bytes, bytes]], list[bytes]] | None:
    """The last row of every key, in the order of stored keys, and the keys that were deleted.

    None if a key is too long to be stored as it is.
    """
    table = pa.Table.from_batches([batch.select(["key", "value", "timestamp"]) for batch in batches]).combine_chunks()
    table = table.filter(pc.is_valid(table.column("key")))
    if not table.num_rows:
        return [], []
    keys = table.column("key").combine_chunks()
    if pc.max(pc.binary_length(keys)).as_py() > SHORT_KEY_BYTES_MAX - SEGMENT_PREFIX_BYTES:
        return None
    if isinstance(store, SegmentedStore):
        keys, is_needed = segmented_keys(store, keys, table.column("value"))
        keys, table = keys.filter(is_needed), table.filter(is_needed)
        if not len(keys):
            return [], []
    # Sorting is stable: of equal keys the last one is the newest.
    order = pc.sort_indices(keys)
    keys = keys.take(order)
    is_last: Any = np.ones(len(keys), bool)
    is_last[:-1] = np.asarray(pc.not_equal(keys.slice(0, len(keys) - 1), keys.slice(1)))
    kept = pa.array(is_last)
    keys, order = keys.filter(kept), order.filter(kept)
    values = table.column("value").combine_chunks().take(order)
    stored = pc.binary_join_element_wise(pa.scalar(KEY_PREFIX, pa.binary()), keys, _EMPTY)
    if store.row_form is RowForm.DATED:
        times = np.asarray(table.column("timestamp").combine_chunks().take(order).cast(pa.int64())) // 1000
        dates = fixed_bytes(times.astype(">i8").tobytes(), 8)
        # A deleted row stays null.
        values = pc.binary_join_element_wise(dates, values, _EMPTY)
    if not values.null_count:
        return _Rows(stored, values), []
    is_there = pc.is_valid(values)
    rows = _Rows(stored.filter(is_there), values.filter(is_there))
    return rows, stored.filter(pc.invert(is_there)).to_pylist()


def segmented_keys(store: SegmentedStore, keys: Any, values: Any) -> tuple[Any, Any]:
    """The keys of rows in the table of a store with segments, and the rows that are still needed.

    The store registers the times and sequence numbers of these rows here.
    """
    size = store.suffix.size
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(keys.buffers()[2], np.uint8)
    suffixes = data[offsets[1:, None] + np.arange(-size, 0)]
    times = np.ascontiguousarray(suffixes[:, :8]).view(">i8")[:, 0].astype(np.int64)
    sequences = np.ascontiguousarray(suffixes[:, 8:]).view(f">i{size - 8}")[:, 0]
    needed = store.on_loaded(times, int(sequences.max()), np.asarray(pc.is_valid(values)))
    prefixes = segment_prefixes(times, np.diff(offsets) - size, store.segment_ms)
    return pc.binary_join_element_wise(fixed_bytes(prefixes, SEGMENT_PREFIX_BYTES), keys, _EMPTY), pa.array(needed)


class _Rows:
    """Rows in Arrow columns; a slice of them at a time becomes Python objects."""

    def __init__(self, keys: pa.Array, values: pa.Array) -> None:
        self._keys = keys
        self._values = values

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        for start in range(0, len(self._keys), _SLICE_ROWS):
            keys, values = self._keys.slice(start, _SLICE_ROWS), self._values.slice(start, _SLICE_ROWS)
            yield from zip(keys.to_pylist(), values.to_pylist(), strict=True)
