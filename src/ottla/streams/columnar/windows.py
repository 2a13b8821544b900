"""The column form of aggregates in tumbling and hopping windows, with every update.

The rows of a batch are sorted by key and window, so that the rows of a window are neighbours: each window is read once
and written once. Counts and sums of whole numbers need no loop over rows.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from ottla.streams.columnar.aggregates import Folding, running
from ottla.streams.columnar.bytes import encoded, standard_name
from ottla.streams.columnar.rows import Column, Numbers, Rows, WindowedColumn
from ottla.streams.columnar.step import Step, without_nulls
from ottla.streams.dsl.windows import TimeWindows
from ottla.streams.operators.aggregates import WindowAggregate
from ottla.streams.operators.emission import EmitStrategy
from ottla.streams.state.window import TimestampedWindowStore

__all__ = ["window_step"]

_NUMBER_MAX = 1 << 62


def window_step(plan: WindowAggregate, processor: Any, store: Any) -> Step | None:
    windows = plan.windows
    if plan.sends_old or type(store) is not TimestampedWindowStore or type(windows) is not TimeWindows:
        return None
    if plan.strategy is not EmitStrategy.ON_WINDOW_UPDATE:
        return None
    if store.specification.retention_ms < windows.size_ms + windows.grace_ms:
        # Windows would expire while they are open.
        return None
    return WindowStep(plan, processor, store)


class _Windows(NamedTuple):
    """Rows and their windows. A row appears once for each of its windows."""

    # For every row and window: the row, the start, and the number of the key and window.
    sources: Any
    starts: Any
    groups: Any
    # Key and start, by that number.
    places: list[tuple[bytes, int]]


class WindowStep:
    def __init__(self, plan: WindowAggregate, processor: Any, store: TimestampedWindowStore) -> None:
        self._processor = processor
        self._store = store
        self._windows = plan.windows
        self._folding = fold = Folding(plan, store)
        is_sum = fold.is_count or fold.reducer is operator.add
        self._is_sum = is_sum and standard_name(store.value_serde) == "long"

    def run(self, rows: Rows) -> Rows:
        rows = without_nulls(rows, self._processor, "null key", values=False)
        if not len(rows):
            return rows
        assigned = self._assigned(rows)
        if not len(assigned.sources):
            return rows.sliced(0, 0)
        stored = [self._store.raw_fetch(key, start) for key, start in assigned.places]
        values, stamps = self._summed(rows, assigned, stored) or self._folded(rows, assigned, stored)
        if not np.array_equal(assigned.sources, np.arange(len(rows))):
            rows = rows.taken(assigned.sources.tolist())
        ends = (assigned.starts + self._windows.size_ms).tolist()
        key = WindowedColumn(rows.key.values, assigned.starts.tolist(), ends, groups=assigned.groups.tolist())
        return Rows(key, values, stamps, rows.headers, rows.order)

    def _assigned(self, rows: Rows) -> _Windows:
        """The windows of rows, without those that are closed."""
        size, advance, grace = self._windows.size_ms, self._windows.advance_ms, self._windows.grace_ms
        times, store = rows.time.numbers, self._store
        observed = np.maximum(np.maximum.accumulate(times), self._processor.observed)
        self._processor.observed = int(observed[-1])
        starts = np.maximum(times - size + advance, 0) // advance * advance
        sources: Any = np.arange(len(times))
        if advance < size:
            counts = (times - starts) // advance + 1
            sources = np.repeat(sources, counts)
            numbers = np.arange(len(sources)) - np.repeat(np.cumsum(counts) - counts, counts)
            starts = starts[sources] + numbers * advance
        is_open = starts > (observed - grace - size)[sources]
        if not is_open.all():
            self._processor.context.drop("expired window", int((~is_open).sum()))
            sources, starts = sources[is_open], starts[is_open]
        keys = encoded(rows.key, store.key_serde, store.topic).dictionary_encode()
        names = Column(array=keys.dictionary).values
        known_starts, start_numbers = np.unique(starts, return_inverse=True)
        numbers = np.asarray(keys.indices).astype(np.int64)[sources] * len(known_starts) + start_numbers
        known, groups = np.unique(numbers, return_inverse=True)
        codes, ranks = np.divmod(known, max(1, len(known_starts)))
        places = zip(map(names.__getitem__, codes.tolist()), known_starts[ranks].tolist(), strict=True)
        return _Windows(sources, starts, groups, list(places))

    def _summed(self, rows: Rows, assigned: _Windows, stored: list[Any]) -> tuple[Column, Numbers] | None:
        """Running counts or sums; None for other aggregates, or if sums may exceed 64 bits."""
        column = rows.value
        if not self._is_sum or not (self._folding.is_count or isinstance(column, Numbers)):
            return None
        before = np.frombuffer(b"".join(row[0] if row else bytes(8) for row in stored), ">i8").astype(np.int64)
        times = np.array([row[1] if row else -1 for row in stored], np.int64)
        numbers, latest = running(assigned.groups, rows.time.numbers[assigned.sources], len(stored))
        if isinstance(column, Numbers) and not self._folding.is_count:
            numbers = column.numbers[assigned.sources]
            if float(np.abs(before.astype(float)).max()) + float(np.abs(numbers.astype(float)).sum()) >= _NUMBER_MAX:
                return None
            order = np.argsort(assigned.groups, kind="stable")
            totals = np.cumsum(numbers[order])
            firsts = np.searchsorted(assigned.groups[order], np.arange(len(stored)))
            numbers = np.empty(len(order), np.int64)
            numbers[order] = totals - np.r_[0, totals][firsts][assigned.groups[order]]
        values = before[assigned.groups] + numbers
        stamps = np.maximum(times[assigned.groups], latest)
        last: Any = np.empty(len(stored), np.int64)
        last[assigned.groups] = np.arange(len(assigned.groups))
        content = values[last].astype(">i8").tobytes()
        contents = [content[place : place + 8] for place in range(0, len(content), 8)]
        self._store.raw_put_many(assigned.places, contents, stamps[last].tolist())
        return Numbers(numbers=values), Numbers(numbers=stamps)

    def _folded(self, rows: Rows, assigned: _Windows, stored: list[Any]) -> tuple[Column, Numbers]:
        """Calls the functions of the aggregate for every row."""
        fold = self._folding
        initializer, aggregator, reducer, plain = fold.initializer, fold.aggregator, fold.reducer, fold.plain
        order = np.argsort(assigned.groups, kind="stable")
        sorted_sources = assigned.sources[order].tolist()
        row_keys, row_values, row_times = rows.key.values, rows.value.values, rows.time.values
        ends = np.cumsum(np.bincount(assigned.groups, minlength=len(stored))).tolist()
        results: list[Any] = []
        stamps: list[int] = []
        last: list[tuple[Any, int]] = []
        begin = 0
        for row, end in zip(stored, ends, strict=True):
            kept, kept_stamp = (None, 0) if row is None else (fold.read(row[0]), row[1])
            for source in sorted_sources[begin:end]:
                value, stamp = row_values[source], row_times[source]
                before = kept
                if before is None:
                    before = initializer()
                elif kept_stamp > stamp:
                    stamp = kept_stamp
                if reducer is None:
                    new = aggregator(row_keys[source], value, before)
                else:
                    new = value if before is None else reducer(before, value)
                kept = new if type(new) is plain else fold.copied(new)
                # The deletion of a row has the time of its record.
                kept_stamp = row_times[source] if kept is None else stamp
                results.append(new)
                stamps.append(stamp)
            last.append((kept, kept_stamp))
            begin = end
        contents = fold.encoded([row[0] for row in last])
        self._store.raw_put_many(assigned.places, contents, [row[1] for row in last])
        back = np.argsort(order)
        return Column(results).taken(back), Numbers(stamps).taken(back)
