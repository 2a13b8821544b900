"""Column forms of aggregates by key.

A batch reads each row of the store once and writes it once; in between, aggregates are kept as values. A value that may
be changed in place, or that its serde changes, is serialized after every record, as in the record form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.streams.columnar.bytes import encoded, encoded_values, plain_type
from ottla.streams.columnar.rows import Column, Numbers, Rows
from ottla.streams.columnar.step import Step, without_nulls
from ottla.streams.dsl.aggregation import count_one, reducing
from ottla.streams.operators.aggregates import Aggregate
from ottla.streams.state.key_value import TimestampedKeyValueStore

__all__ = ["Folding", "aggregate_step", "running"]


def aggregate_step(plan: Aggregate, processor: Any, store: Any) -> Step | None:
    if plan.sends_old or type(store) is not TimestampedKeyValueStore:
        return None
    if plan.is_count and store.is_counting:
        return CountStep(processor, store)
    return AggregateStep(plan, processor, store)


class CountStep:
    """Running counts and largest timestamps by key, without a loop over rows."""

    def __init__(self, processor: Any, store: TimestampedKeyValueStore) -> None:
        self._processor = processor
        self._store = store

    def run(self, rows: Rows) -> Rows:
        rows = without_nulls(rows, self._processor, "null key or value", values=True)
        if not len(rows):
            return rows
        store = self._store
        places = encoded(rows.key, store.key_serde, store.topic).dictionary_encode()
        codes = np.asarray(places.indices).astype(np.int64)
        keys = Column(array=places.dictionary).values
        before = [store.raw_get(key) for key in keys]
        counts = np.array([0 if row is None else int.from_bytes(row[0], "big") for row in before], np.int64)
        times = np.array([-1 if row is None else row[1] for row in before], np.int64)
        numbers, latest = running(codes, rows.time.numbers, len(keys))
        totals = counts[codes] + numbers
        stamps = np.maximum(times[codes], latest)
        last: Any = np.empty(len(keys), np.int64)
        last[codes] = np.arange(len(codes))
        content = totals[last].astype(">i8").tobytes()
        contents = [content[place : place + 8] for place in range(0, len(content), 8)]
        store.raw_put_many(keys, contents, stamps[last].tolist())
        return Rows(rows.key, Numbers(numbers=totals), Numbers(numbers=stamps), rows.headers, rows.order)


def running(codes: Any, timestamps: Any, keys: int) -> tuple[Any, Any]:
    """For every row: how many rows of its key there are so far, and their largest timestamp."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    numbers: Any = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(ordered)) - np.repeat(starts, lengths) + 1
    # Keys get ranges of time that do not overlap, so that one running maximum serves all of them.
    lowest = timestamps.min()
    span = int(timestamps.max() - lowest) + 1
    latest: Any = np.empty(len(codes), np.int64)
    if span * len(starts) < 1 << 62:
        shift: Any = np.repeat(np.arange(len(starts)), lengths) * span
        latest[order] = np.maximum.accumulate(timestamps[order] - lowest + shift) - shift + lowest
    else:
        # Timestamps that are far apart, for instance because some of them are microseconds.
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            positions = order[start : start + length]
            latest[positions] = np.maximum.accumulate(timestamps[positions])
    assert len(starts) == keys
    return numbers, latest


class Folding:
    """The functions of an aggregate, and how its values are kept between two records."""

    def __init__(self, plan: Any, store: Any) -> None:
        self.initializer = plan.initializer
        self.aggregator = plan.aggregator
        self.is_count = plan.aggregator is count_one
        self.reducer = plan.aggregator.reducer if isinstance(plan.aggregator, reducing) else None
        self.plain = plain_type(store.value_serde)
        self._serde, self._topic = store.value_serde, store.topic

    @property
    def needs_key(self) -> bool:
        return not self.is_count and self.reducer is None

    def read(self, content: bytes) -> Any:
        return self._serde.deserialize(self._topic, content)

    def copied(self, value: Any) -> Any:
        """The value after a round trip through the serde, as the record form reads it back."""
        return None if value is None else self.read(self._serde.serialize(self._topic, value))

    def encoded(self, values: list[Any]) -> list[Any]:
        return encoded_values(Column(values), self._serde, self._topic)


class AggregateStep:
    def __init__(self, plan: Aggregate, processor: Any, store: TimestampedKeyValueStore) -> None:
        self._processor = processor
        self._store = store
        self._folding = Folding(plan, store)

    def run(self, rows: Rows) -> Rows:
        rows = without_nulls(rows, self._processor, "null key or value", values=True)
        store, fold = self._store, self._folding
        places = encoded_values(rows.key, store.key_serde, store.topic)
        keys: list[Any] = rows.key.values if fold.needs_key else places
        initializer, aggregator, reducer, plain, read = (
            fold.initializer,
            fold.aggregator,
            fold.reducer,
            fold.plain,
            store.raw_get,
        )
        state: dict[Any, tuple[Any, int]] = {}
        values: list[Any] = []
        stamps: list[int] = []
        for place, key, value, time in zip(places, keys, rows.value.values, rows.time.values, strict=True):
            stamp = time
            row = state.get(place)
            if row is None:
                stored = read(place)
                row = (None, 0) if stored is None else (fold.read(stored[0]), stored[1])
            before = row[0]
            if before is None:
                before = initializer()
            elif row[1] > stamp:
                stamp = row[1]
            if reducer is None:
                new = aggregator(key, value, before)
            else:
                new = value if before is None else reducer(before, value)
            # The deletion of a row has the time of its record.
            state[place] = (None, time) if new is None else (new if type(new) is plain else fold.copied(new), stamp)
            values.append(new)
            stamps.append(stamp)
        contents = fold.encoded([row[0] for row in state.values()])
        store.raw_put_many(list(state), contents, [row[1] for row in state.values()])
        return Rows(rows.key, Column(values), Numbers(stamps), rows.headers, rows.order)
