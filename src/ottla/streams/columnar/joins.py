"""Column forms of tables that are read from a topic, and of joins of a stream with a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.streams.columnar.bytes import encoded_values, plain_type
from ottla.streams.columnar.rows import Column, Rows
from ottla.streams.columnar.step import Step, without_nulls
from ottla.streams.operators.table_joins import StreamTableJoin
from ottla.streams.operators.tables import StoreGetter, TableSource
from ottla.streams.state.key_value import TimestampedKeyValueStore

__all__ = ["lookup_step", "table_step"]


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
        join_keys = keys
        if processor.key_of is not None:
            join_keys = [
                None if value is None else processor.key_of(key, value) for key, value in zip(keys, values, strict=True)
            ]
        partners = self._partners(rows.key if join_keys is keys else Column(join_keys))
        joiner, is_left, dropped = processor.joiner, processor.is_left, 0
        joined: list[Any] = []
        kept: list[bool] = []
        for key, value, join_key, row in zip(keys, values, join_keys, partners, strict=True):
            if value is None or (join_key is None and not (is_left and key is None)):
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

    def _partners(self, join_keys: Column) -> list[Any]:
        """The table's value for every join key; None without a row."""
        getter = self._processor.getter
        store = getter.store if isinstance(getter, StoreGetter) else None
        if type(store) is not TimestampedKeyValueStore:
            rows = [None if key is None else getter.get(key) for key in join_keys.values]
            return [None if row is None else row.value for row in rows]
        places = encoded_values(join_keys, store.key_serde, store.topic)
        serde, topic, get = store.value_serde, store.topic, store.raw_get
        is_plain = plain_type(serde) is not None
        known: dict[Any, Any] = {None: None}
        values = []
        for place in places:
            if place in known:
                values.append(known[place])
                continue
            row = get(place)
            value = None if row is None else serde.deserialize(topic, row[0])
            if is_plain:
                known[place] = value
            values.append(value)
        return values
