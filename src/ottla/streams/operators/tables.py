"""Operators on tables. A supplier is the plan of a node: it creates processors and lets later nodes read the table.

Tables forward `Change` values. A supplier sends old values only if a later operator needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.streams.errors import StreamsError
from ottla.streams.machine.processor import Processor, ProcessorContext
from ottla.streams.record import Change, Record, ValueAndTimestamp
from ottla.streams.state.specification import StoreKind

__all__ = [
    "Getter",
    "GroupedTableAggregate",
    "OptionalStoreProcessor",
    "StoreGetter",
    "TableFilter",
    "TableMapValues",
    "TablePassThrough",
    "TableRepartitionMap",
    "TableSource",
    "TableSupplier",
    "View",
    "forward_update",
    "put_row",
]


class Getter(Protocol):
    """Reads the current row of a key."""

    is_versioned: bool

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None: ...


class View(Protocol):
    """How another node reads a table: the stores that it needs, and a getter for its context."""

    @property
    def stores(self) -> tuple[str, ...]: ...

    def getter(self, context: ProcessorContext) -> Getter: ...


class TableSupplier(Protocol):
    """The plan of a table's node."""

    sends_old: bool

    def __call__(self) -> Processor: ...

    def view(self) -> View: ...

    def send_old_values(self, *, force: bool) -> bool: ...


class StoreGetter:
    """Rows of a timestamped or versioned store."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.is_versioned = store.specification.kind is StoreKind.VERSIONED

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None:
        row: ValueAndTimestamp | None = self.store.get(key) if as_of is None else self.store.get(key, as_of)
        return row


class StoreView:
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def getter(self, context: ProcessorContext) -> Getter:
        return StoreGetter(context.get_state_store(self.stores[0]))


class DerivedGetter:
    """Rows of a parent table, seen through a function."""

    def __init__(
        self, parent: Getter, function: Callable[[Any, ValueAndTimestamp | None], ValueAndTimestamp | None]
    ) -> None:
        self._parent = parent
        self._function = function
        self.is_versioned = parent.is_versioned

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None:
        return self._function(key, self._parent.get(key, as_of))


class DerivedView:
    def __init__(
        self, parent: View, function: Callable[[Any, ValueAndTimestamp | None], ValueAndTimestamp | None]
    ) -> None:
        self._parent = parent
        self._function = function

    @property
    def stores(self) -> tuple[str, ...]:
        return self._parent.stores

    def getter(self, context: ProcessorContext) -> Getter:
        return DerivedGetter(self._parent.getter(context), self._function)


def put_and_forward(
    context: ProcessorContext, store: Any, record: Record, new: Any, old: Any, *, sends_old: bool
) -> None:
    """Writes a row and forwards the change. Writes that a versioned store drops are not forwarded."""
    put_row(context, store, record, record.timestamp, new, old if sends_old else None, sends_old=sends_old)


def forward_update(
    context: ProcessorContext, store: Any, record: Record, before: Callable[[], Any], *, sends_old: bool
) -> None:
    """Forwards the change of a row that was written, or hands it to the record cache.

    `before` returns the previous value of the row, if the store was read; the cache keeps the first of them.
    """
    if store.cache is None:
        context.forward(record)
        return
    place, row_bytes = store.cache_place(record.key)
    store.cache.put(place, record, before(), row_bytes=row_bytes, context=context, sends_old=sends_old)


def put_row(
    context: ProcessorContext, store: Any, record: Record, timestamp: int, new: Any, old: Any, *, sends_old: bool
) -> None:
    """Writes a row and forwards the change, both with the given timestamp."""
    if store.cache is not None:
        row = store.get(record.key)
        before = None if row is None else row.value
        store.put_at(record.key, new, timestamp)
        # A deletion has the time of the record that caused it.
        changed = Record(record.key, Change(new, old), timestamp if new is not None else context.timestamp)
        changed.headers = record.headers
        forward_update(context, store, changed, lambda: before, sends_old=sends_old)
        return
    is_latest = store.put_at(record.key, new, timestamp)
    if is_latest is not None:
        context.forward(Record(record.key, Change(new, old, is_latest), timestamp, record.headers))


class TableSource:
    """A table that is read from a topic. It has a store only if a later operator reads it or it was named."""

    def __init__(self, store: str, queryable: str | None) -> None:
        self.store = store
        self.queryable = queryable
        self.sends_old = False

    def __call__(self) -> Processor:
        return _TableSourceProcessor(self.queryable, sends_old=self.sends_old)

    def materialize(self) -> None:
        self.queryable = self.store

    @property
    def is_materialized(self) -> bool:
        return self.queryable is not None

    def view(self) -> View:
        self.materialize()
        return StoreView(self.store)

    def send_old_values(self, *, force: bool) -> bool:
        if not force and not self.is_materialized:
            return False
        self.materialize()
        self.sends_old = True
        return True


class OptionalStoreProcessor(Processor):
    """A processor of a table that may have no store."""

    def __init__(self, queryable: str | None, *, sends_old: bool) -> None:
        self._queryable = queryable
        self._sends_old = sends_old

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = None if self._queryable is None else context.get_state_store(self._queryable)


class _TableSourceProcessor(OptionalStoreProcessor):
    def process(self, record: Record) -> None:
        if record.key is None:
            self.context.drop("null key")
            return
        if self._store is None:
            self.context.forward(record.with_value(Change(record.value, None)))
            return
        before = self._store.get(record.key)
        old = None if before is None else before.value
        put_and_forward(self.context, self._store, record, record.value, old, sends_old=self._sends_old)


class _DerivedTable:
    """A table that is computed from one parent; it has a store only if it was named."""

    def __init__(self, parent: Any, queryable: str | None) -> None:
        self.parent = parent
        self.queryable = queryable
        self.sends_old = False
        self.uses_versions = False

    def send_old_values(self, *, force: bool) -> bool:
        if self.queryable is not None or self.parent.send_old_values(force=force):
            self.sends_old = True
        return self.sends_old

    def compute(self, key: Any, value: Any) -> Any:
        raise NotImplementedError

    def compute_row(self, key: Any, row: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        raise NotImplementedError

    def view(self) -> View:
        if self.queryable is not None:
            return StoreView(self.queryable)
        return DerivedView(self.parent.view(), self.compute_row)

    def __call__(self) -> Processor:
        return _DerivedProcessor(self, skips_nothing=isinstance(self, TableFilter) and not self.uses_versions)


class _DerivedProcessor(Processor):
    def __init__(self, plan: _DerivedTable, *, skips_nothing: bool) -> None:
        self._plan = plan
        self._sends_old = plan.sends_old
        self._skips_nothing = skips_nothing

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        queryable = self._plan.queryable
        self._store = None if queryable is None else context.get_state_store(queryable)

    def process(self, record: Record) -> None:
        key, change = record.key, record.value
        new = self._plan.compute(key, change.new)
        old = None
        if self._sends_old:
            if self._store is None:
                old = self._plan.compute(key, change.old)
            else:
                row = self._store.get(key)
                old = None if row is None else row.value
            if self._skips_nothing and old is None and new is None:
                return
        if self._store is None:
            self.context.forward(record.with_value(Change(new, old, change.is_latest)))
        else:
            put_and_forward(self.context, self._store, record, new, old, sends_old=self._sends_old)


class TableFilter(_DerivedTable):
    def __init__(
        self, parent: Any, predicate: Callable[[Any, Any], bool], queryable: str | None, *, keeps: bool
    ) -> None:
        super().__init__(parent, queryable)
        self._predicate = predicate
        self._keeps = keeps
        # With old values, rows that neither were nor are in the table need no deletion.
        self.sends_old = parent.send_old_values(force=False)

    def compute(self, key: Any, value: Any) -> Any:
        if value is None:
            return None
        return value if bool(self._predicate(key, value)) is self._keeps else None

    def compute_row(self, key: Any, row: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        return None if row is None or self.compute(key, row.value) is None else row


class TableMapValues(_DerivedTable):
    def __init__(self, parent: Any, mapper: Callable[[Any, Any], Any], queryable: str | None) -> None:
        super().__init__(parent, queryable)
        self._mapper = mapper

    def compute(self, key: Any, value: Any) -> Any:
        return None if value is None else self._mapper(key, value)

    def compute_row(self, key: Any, row: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        if row is None:
            return None
        value = self._mapper(key, row.value)
        return None if value is None else ValueAndTimestamp(value, row.timestamp)


class TableRepartitionMap(Processor):
    """Before the aggregation of a table: the rows to subtract and to add, under their new keys."""

    def __init__(self, mapper: Callable[[Any, Any], tuple[Any, Any]], *, uses_versions: bool = False) -> None:
        self._mapper = mapper
        self._uses_versions = uses_versions

    def process(self, record: Record) -> None:
        if record.key is None:
            raise StreamsError("A table that is grouped cannot have a row with key None.")
        change = record.value
        if self._uses_versions and not change.is_latest:
            return
        new = self._pair(record.key, change.new)
        old = self._pair(record.key, change.old)
        if old is not None and new is not None and old[0] == new[0]:
            self.context.forward(record.with_key(old[0]).with_value(Change(new[1], old[1], change.is_latest)))
            return
        if old is not None:
            self.context.forward(record.with_key(old[0]).with_value(Change(None, old[1], change.is_latest)))
        if new is not None:
            self.context.forward(record.with_key(new[0]).with_value(Change(new[1], None, change.is_latest)))

    def _pair(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        if value is None:
            return None
        pair = self._mapper(key, value)
        return None if pair is None or pair[0] is None or pair[1] is None else pair


class GroupedTableAggregate:
    """The aggregate of a grouped table: old rows are subtracted, new ones added.

    Without an initializer the first value is the aggregate, as in `reduce`.
    """

    def __init__(
        self,
        store: str,
        initializer: Callable[[], Any] | None,
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
    ) -> None:
        self.store = store
        self.initializer = initializer
        self.adder = adder
        self.subtractor = subtractor
        self.sends_old = False

    def __call__(self) -> Processor:
        return _GroupedTableProcessor(self)

    def view(self) -> View:
        return StoreView(self.store)

    def send_old_values(self, *, force: bool) -> bool:  # noqa: ARG002
        self.sends_old = True
        return True


class _GroupedTableProcessor(Processor):
    def __init__(self, plan: GroupedTableAggregate) -> None:
        self._plan = plan

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._plan.store)

    def process(self, record: Record) -> None:
        key, change, plan = record.key, record.value, self._plan
        if key is None:
            raise StreamsError(f"The aggregate of a table with store {plan.store} cannot have a row with key None.")
        row = self._store.get(key)
        before = None if row is None else row.value
        aggregate, timestamp = before, record.timestamp
        if change.old is not None and before is not None:
            aggregate = plan.subtractor(key, change.old, before)
            timestamp = max(timestamp, row.timestamp)
        if change.new is not None:
            if aggregate is None:
                if plan.initializer is None:
                    aggregate = change.new
                else:
                    aggregate = plan.adder(key, change.new, plan.initializer())
                    timestamp = timestamp if row is None else max(record.timestamp, row.timestamp)
            else:
                aggregate = plan.adder(key, change.new, aggregate)
                timestamp = max(record.timestamp, row.timestamp)
        put_and_forward(
            self.context, self._store, record.with_timestamp(timestamp), aggregate, before, sends_old=plan.sends_old
        )


class TablePassThrough:
    """The table of a co-group, into which the aggregates of all its streams flow."""

    def __init__(self, parents: list[Any], view: View) -> None:
        self._parents = parents
        self._view = view
        self.sends_old = False

    def __call__(self) -> Processor:
        from ottla.streams.operators.stateless import PassThrough

        return PassThrough()

    def view(self) -> View:
        return self._view

    def send_old_values(self, *, force: bool) -> bool:
        for parent in self._parents:
            parent.send_old_values(force=force)
        self.sends_old = True
        return True
