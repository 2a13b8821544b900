"""The column form of inner joins of two streams within a window of time.

The partners of all rows of a batch are looked up at once. The partners of a row are rows of the other side: those that
its store had before the batch, and those of the batch that come earlier in processing order. They are sorted by key and
time, so that the partners of a row are neighbours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.streams.columnar.bytes import decoded, encoded
from ottla.streams.columnar.rows import Column, Numbers, Rows, concatenated
from ottla.streams.dsl.functions import ignored_key
from ottla.streams.operators.stream_joins import JoinSide, JoinWindow
from ottla.streams.record import NO_TIMESTAMP
from ottla.streams.state.window import WindowStore

__all__ = ["PairStep", "pair_step"]


def pair_step(windows: tuple[JoinWindow, JoinWindow], sides: tuple[JoinSide, JoinSide]) -> PairStep | None:
    """An inner join of two streams; left and outer joins wait for the clock and run record by record."""
    if any(side.unjoined is not None or side.emits_unjoined for side in sides):
        return None
    if any(type(window.store) is not WindowStore or not window.store.keeps_duplicates for window in windows):
        return None
    return PairStep(windows, sides)


class _Side(NamedTuple):
    """The rows of one side that have a key. Positions count the rows of both sides in processing order."""

    rows: Rows
    keys: pa.Array
    contents: pa.Array
    times: Any
    positions: Any
    is_value: Any


class _Matches(NamedTuple):
    """Pairs of rows, unordered between probes: the index of a row, and the content and time of its partner."""

    probes: Any
    contents: pa.Array
    times: Any


class PairStep:
    """Both sides of a join of streams: rows come in the order of all sources."""

    def __init__(self, windows: tuple[JoinWindow, JoinWindow], sides: tuple[JoinSide, JoinSide]) -> None:
        self._stores: tuple[WindowStore, WindowStore] = (windows[0].store, windows[1].store)
        self._sides = sides
        self._joiner = sides[0].joiner

    def run(self, inputs: tuple[Rows | None, Rows | None]) -> Rows:
        left, right = (self._side(index, rows) for index, rows in enumerate(inputs))
        keys = pa.concat_arrays([left.keys, right.keys]).dictionary_encode()
        codes = np.asarray(keys.indices).astype(np.int64)
        names = Column(array=keys.dictionary).values
        side_codes = codes[: len(left.keys)], codes[len(left.keys) :]
        # Before the rows of the batch are in the stores.
        of_left = self._matches(0, left, right, side_codes[0], side_codes[1], names)
        of_right = self._matches(1, right, left, side_codes[1], side_codes[0], names)
        for store, side in zip(self._stores, (left, right), strict=True):
            if len(side.keys):
                store.raw_append(side.keys, side.times, side.contents)
        times = [rows.time.numbers.max() for rows in inputs if rows is not None and len(rows)]
        shared = self._sides[0].time
        shared.stream_time = max(shared.stream_time, *map(int, times)) if times else shared.stream_time
        return self._joined(left, right, of_left, of_right)

    def _side(self, index: int, rows: Rows | None) -> _Side:
        """The rows that have a key. Rows without a key or a value are counted as dropped."""
        store = self._stores[index]
        if rows is None:
            rows = Rows(Column([]), Column([]), Numbers([]))
        keys = encoded(rows.key, store.key_serde, store.topic)
        positions: Any = np.arange(len(rows)) if rows.order is None else np.asarray(rows.order, np.int64)
        contents = encoded(rows.value, store.value_serde, store.topic)
        if keys.null_count:
            has_key = keys.is_valid()
            rows, keys, contents = rows.compressed(has_key.to_pylist()), keys.drop_null(), contents.filter(has_key)
            self._sides[index].context.drop("null key or value", len(positions) - len(rows))
            positions = positions[np.asarray(has_key)]
        if contents.null_count:
            self._sides[index].context.drop("null key or value", contents.null_count)
        return _Side(rows, keys, contents, rows.time.numbers, positions, np.asarray(contents.is_valid()))

    def _matches(
        self, index: int, side: _Side, other: _Side, codes: Any, other_codes: Any, names: list[bytes]
    ) -> _Matches:
        """The partners of the rows of one side."""
        plan, store = self._sides[index], self._stores[1 - index]
        retention = store.specification.retention_ms
        probes = np.flatnonzero(side.is_value)
        first = np.maximum(side.times[probes] - plan.before, 0)
        last = np.maximum(side.times[probes] + plan.after, 0)
        # The stream time of the other side when a row was processed: rows older than its retention had expired.
        latest = np.maximum.accumulate(np.where(other.is_value, other.times, NO_TIMESTAMP))
        latest = np.maximum(np.r_[NO_TIMESTAMP, latest], store.observed)
        earlier = np.searchsorted(other.positions, side.positions[probes])
        first = np.maximum(first, latest[earlier] - retention + 1)
        if not len(probes):
            return _Matches(probes, pa.array([], pa.binary()), first)
        numbers, starts, contents = store.raw_of_keys(names, int(first.min()), int(last.max()))
        kept = np.flatnonzero(other.is_value & (other.times > latest[1:] - retention))
        partner_codes = np.r_[np.array(numbers, np.int64), other_codes[kept]]
        partner_times = np.r_[np.array(starts, np.int64), other.times[kept]]
        partner_positions = np.r_[np.full(len(numbers), -1), other.positions[kept]]
        if not len(partner_codes):
            return _Matches(probes[:0], pa.array([], pa.binary()), first[:0])
        order, low, high = _neighbours(partner_codes, partner_times, codes[probes], first, last)
        counts = np.maximum(high - low, 0)
        probe_numbers: Any = np.repeat(np.arange(len(probes)), counts)
        ends = np.cumsum(counts)
        place = order[np.arange(len(probe_numbers)) - np.repeat(ends - counts, counts) + np.repeat(low, counts)]
        is_earlier = partner_positions[place] < side.positions[probes][probe_numbers]
        probe_numbers, place = probe_numbers[is_earlier], place[is_earlier]
        all_contents = pa.concat_arrays([pa.array(contents, pa.binary()), other.contents.take(pa.array(kept))])
        return _Matches(probes[probe_numbers], all_contents.take(pa.array(place)), partner_times[place])

    def _joined(self, left: _Side, right: _Side, of_left: _Matches, of_right: _Matches) -> Rows:
        """The results in processing order; results of one row are in the order of its partners."""
        positions = np.r_[left.positions[of_left.probes], right.positions[of_right.probes]]
        order = np.argsort(positions, kind="stable")

        def column(first: Column, second: Column) -> Column:
            return concatenated(first, second).taken(order)

        keys = column(left.rows.key.taken(of_left.probes), right.rows.key.taken(of_right.probes))
        lefts = column(left.rows.value.taken(of_left.probes), self._read(0, of_right.contents))
        rights = column(self._read(1, of_left.contents), right.rows.value.taken(of_right.probes))
        own_times = np.r_[left.times[of_left.probes], right.times[of_right.probes]]
        times = np.maximum(own_times, np.r_[of_left.times, of_right.times])[order]
        headers = None
        if left.rows.headers or right.rows.headers:
            of_rows = [side.rows.headers or [()] * len(side.rows) for side in (left, right)]
            merged = [of_rows[0][row] for row in of_left.probes] + [of_rows[1][row] for row in of_right.probes]
            headers = [merged[place] for place in order]
        return Rows(keys, Column(self._call(keys, lefts, rights)), Numbers(numbers=times), headers)

    def _read(self, index: int, contents: pa.Array) -> Column:
        store = self._stores[index]
        return decoded(contents, store.value_serde, store.topic)

    def _call(self, keys: Column, lefts: Column, rights: Column) -> list[Any]:
        of_values = ignored_key(self._joiner)
        if of_values is not None:
            return list(map(of_values, lefts.values, rights.values))
        return list(map(self._joiner, keys.values, lefts.values, rights.values))


def _neighbours(partner_codes: Any, partner_times: Any, codes: Any, first: Any, last: Any) -> tuple[Any, Any, Any]:
    """The order of partners by key and time, and the range of every probe's partners in that order."""
    # Times become small numbers, so that a key and a time fit into one number.
    lowest, highest = int(partner_times.min()), int(partner_times.max())
    if (highest - lowest + 2) * (int(max(partner_codes.max(), codes.max())) + 1) < 1 << 62:
        ranks, low, high = partner_times - lowest, first - lowest, last - lowest
        span = highest - lowest + 2
    else:
        known, ranks = np.unique(partner_times, return_inverse=True)
        low, high = np.searchsorted(known, first), np.searchsorted(known, last, side="right") - 1
        span = len(known) + 1
    numbers = partner_codes * span + ranks
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    base = codes * span
    low = np.searchsorted(ordered, base + np.clip(low, 0, span - 1))
    high = np.searchsorted(ordered, base + np.clip(high, -1, span - 2), side="right")
    return order, low, high
