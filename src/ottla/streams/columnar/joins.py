"""Column forms of joins: a stream with a table, and two streams within a window of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ottla.streams.columnar.bytes import encoded_values, plain_type
from ottla.streams.columnar.rows import Column, Numbers, Rows
from ottla.streams.columnar.step import Step, without_nulls
from ottla.streams.operators.stream_joins import JoinSide, JoinWindow
from ottla.streams.operators.table_joins import StreamTableJoin
from ottla.streams.operators.tables import StoreGetter, TableSource
from ottla.streams.state.key_value import TimestampedKeyValueStore
from ottla.streams.state.window import WindowStore

__all__ = ["PairStep", "lookup_step", "pair_step", "table_step"]


def table_step(plan: TableSource, processor: Any, store: Any) -> Step | None:
    """A table that is read from a topic."""
    if plan.sends_old or (store is not None and type(store) is not TimestampedKeyValueStore):
        return None
    return TableStep(processor, store)


class TableStep:
    def __init__(self, processor: Any, store: TimestampedKeyValueStore | None) -> None:
        self._processor = processor
        self._store = store

    def run(self, rows: Rows) -> Rows:
        rows = without_nulls(rows, self._processor, "null key", values=False)
        store = self._store
        if store is not None and len(rows):
            keys = encoded_values(rows.key, store.key_serde, store.topic)
            contents = encoded_values(rows.value, store.value_serde, store.topic)
            store.raw_put_many(keys, contents, rows.time.values)
        return rows


def lookup_step(processor: StreamTableJoin) -> Step | None:
    return None if processor.has_buffer or processor.getter.is_versioned else LookupStep(processor)


class LookupStep:
    """A stream joined with a table, or with a global table."""

    def __init__(self, processor: StreamTableJoin) -> None:
        self._processor = processor

    def run(self, rows: Rows) -> Rows:
        processor = self._processor
        keys, values = rows.key.values, rows.value.values
        wanted = keys
        if processor.key_of is not None:
            wanted = [
                None if value is None else processor.key_of(key, value) for key, value in zip(keys, values, strict=True)
            ]
        found = self._found(rows.key if wanted is keys else Column(wanted))
        joiner, is_left, dropped = processor.joiner, processor.is_left, 0
        joined: list[Any] = []
        kept: list[bool] = []
        for key, value, want, row in zip(keys, values, wanted, found, strict=True):
            if value is None or (want is None and not (is_left and key is None)):
                dropped += 1
                kept.append(False)
            elif row is None and not is_left:
                kept.append(False)
            else:
                kept.append(True)
                joined.append(joiner(key, value, row))
        if dropped:
            processor.context.drop("null join key or value", dropped)
        result = rows if len(joined) == len(rows) else rows.compressed(kept)
        return replace(result, value=Column(joined))

    def _found(self, wanted: Column) -> list[Any]:
        """The value of every row, None where there is none."""
        getter = self._processor.getter
        store = getter.store if isinstance(getter, StoreGetter) else None
        if type(store) is not TimestampedKeyValueStore:
            rows = [None if key is None else getter.get(key) for key in wanted.values]
            return [None if row is None else row.value for row in rows]
        places = encoded_values(wanted, store.key_serde, store.topic)
        serde, topic, get = store.value_serde, store.topic, store.raw_get
        is_plain = plain_type(serde) is not None
        known: dict[Any, Any] = {None: None}
        found = []
        for place in places:
            if place in known:
                found.append(known[place])
                continue
            row = get(place)
            value = None if row is None else serde.deserialize(topic, row[0])
            if is_plain:
                known[place] = value
            found.append(value)
        return found


def pair_step(windows: tuple[JoinWindow, JoinWindow], sides: tuple[JoinSide, JoinSide]) -> PairStep | None:
    """An inner join of two streams; left and outer joins wait for the clock and run record by record."""
    if any(side.unjoined is not None or side.emits_unjoined for side in sides):
        return None
    if any(type(window.store) is not WindowStore for window in windows):
        return None
    return PairStep(windows, sides)


class PairStep:
    """Both sides of a join of streams: rows come in the order of all sources."""

    def __init__(self, windows: tuple[JoinWindow, JoinWindow], sides: tuple[JoinSide, JoinSide]) -> None:
        self._stores = tuple(window.store for window in windows)
        self._sides = sides
        self._joiner = sides[0].joiner
        self._reads = tuple(store.value_serde.deserialize for store in self._stores)

    def run(self, given: tuple[Rows | None, Rows | None]) -> Rows:
        rows = [one for one in given if one is not None]
        keys = [key for one in rows for key in one.key.values]
        values = [value for one in rows for value in one.value.values]
        times = [time for one in rows for time in one.time.values]
        is_left = [one is given[0] for one in rows for _ in range(len(one))]
        places, contents = [], []
        for one, store in zip(given, self._stores, strict=True):
            if one is not None:
                places += encoded_values(one.key, store.key_serde, store.topic)
                contents += encoded_values(one.value, store.value_serde, store.topic)
        positions: Any = range(len(keys))
        if len(rows) == 2:
            assert rows[0].order is not None
            assert rows[1].order is not None
            positions = np.argsort(np.array(rows[0].order + rows[1].order), kind="stable").tolist()
        sources, joined, stamps = self._join(positions, is_left, places, keys, values, contents, times)
        headers = None
        if any(one.headers for one in rows):
            merged = [found for one in rows for found in one.headers or [()] * len(one)]
            headers = [merged[source] for source in sources]
        return Rows(Column([keys[source] for source in sources]), Column(joined), Numbers(stamps), headers)

    def _join(
        self,
        positions: Any,
        is_left: list[bool],
        places: list[Any],
        keys: list[Any],
        values: list[Any],
        contents: list[Any],
        times: list[int],
    ) -> tuple[list[int], list[Any], list[int]]:
        sources: list[int] = []
        joined: list[Any] = []
        stamps: list[int] = []
        left, right = self._sides
        left_store, right_store = self._stores
        joiner, read_left, read_right = self._joiner, self._reads[0], self._reads[1]
        left_topic, right_topic = left_store.topic, right_store.topic
        logs: tuple[list[Any], list[Any]] = ([], [])
        dropped = [0, 0]
        for source in positions:
            place, time, value = places[source], times[source], values[source]
            if place is None or value is None:
                dropped[not is_left[source]] += 1
            elif is_left[source]:
                for start, other in right_store.raw_range(place, time - left.before, time + left.after):
                    sources.append(source)
                    joined.append(joiner(keys[source], value, read_right(right_topic, other)))
                    stamps.append(time if time > start else start)
            else:
                for start, other in left_store.raw_range(place, time - right.before, time + right.after):
                    sources.append(source)
                    joined.append(joiner(keys[source], read_left(left_topic, other), value))
                    stamps.append(time if time > start else start)
            if place is not None:
                index = not is_left[source]
                logs[index].append((self._stores[index].raw_add(place, contents[source], time), contents[source], time))
        for side, store, log, count in zip(self._sides, self._stores, logs, dropped, strict=True):
            store.raw_log_many(log)
            if count:
                side.context.drop("null key or value", count)
        if times:
            left.time.stream_time = max(left.time.stream_time, max(times))
        return sources, joined, stamps
