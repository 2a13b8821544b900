"""Joins with tables: stream with table, stream with global table, table with table."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ottla.streams.machine.processor import Processor, ProcessorContext
from ottla.streams.operators.tables import Getter, OptionalStoreProcessor, StoreView, View, put_and_forward
from ottla.streams.record import NO_TIMESTAMP, Change, Record, ValueAndTimestamp

__all__ = ["JoinKind", "StreamTableJoin", "TableJoinMerge", "TableJoinSide"]


class StreamTableJoin(Processor):
    """Looks up the row of a record. With a buffer, records wait until the table has caught up (KIP-923)."""

    def __init__(
        self,
        view: View,
        joiner: Callable[[Any, Any, Any], Any],
        *,
        key_of: Callable[[Any, Any], Any] | None = None,
        is_left: bool = False,
        buffer: str | None = None,
    ) -> None:
        self._view = view
        self.joiner = joiner
        # None: the key of the stream.
        self.key_of = key_of
        self.is_left = is_left
        self._buffer_name = buffer

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.getter: Getter = self._view.getter(context)
        self._buffer = None if self._buffer_name is None else context.get_state_store(self._buffer_name)

    def process(self, record: Record) -> None:
        keeps_null_key = self.is_left and record.key is None and record.value is not None
        if not keeps_null_key and (record.value is None or self._join_key(record) is None):
            self.context.drop("null join key or value")
            return
        if self._buffer is None or not self._buffer.put(record):
            self._join(record)
            return
        for waiting, metadata in self._buffer.evict():
            with self.context.origin(metadata):
                self._join(waiting)

    def _join(self, record: Record) -> None:
        key = self._join_key(record)
        row = None
        if key is not None:
            row = self.getter.get(key, record.timestamp) if self.getter.is_versioned else self.getter.get(key)
        if self.is_left or row is not None:
            value = None if row is None else row.value
            self.context.forward(record.with_value(self.joiner(record.key, record.value, value)))

    def _join_key(self, record: Record) -> Any:
        return record.key if self.key_of is None else self.key_of(record.key, record.value)

    @property
    def has_buffer(self) -> bool:
        return self._buffer_name is not None


class JoinKind(Enum):
    """How one side of a join of tables behaves."""

    INNER = "inner"
    # The side whose rows are all kept.
    LEFT = "left"
    # The other side of a left join.
    RIGHT = "right"
    OUTER = "outer"


class TableJoinSide:
    """The plan of one side of a join of tables. The joiner gets the value of the left table first."""

    def __init__(
        self, this: Any, other: Any, joiner: Callable[[Any, Any], Any], kind: JoinKind, *, is_left: bool
    ) -> None:
        self.this = this
        self.other = other
        self.joiner = joiner
        self.kind = kind
        self.is_left = is_left
        self.sends_old = False
        self.uses_versions = False

    def __call__(self) -> Processor:
        return _TableJoinProcessor(self)

    def join(self, this: Any, other: Any) -> Any:
        return self.joiner(this, other) if self.is_left else self.joiner(other, this)

    def send_old_values(self, *, force: bool) -> bool:  # noqa: ARG002
        self.this.send_old_values(force=True)
        self.other.send_old_values(force=True)
        self.sends_old = True
        return True

    def view(self) -> View:
        return _JoinView(self)


class _TableJoinProcessor(Processor):
    def __init__(self, plan: TableJoinSide) -> None:
        self._plan = plan

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._getter: Getter = self._plan.other.view().getter(context)

    def process(self, record: Record) -> None:
        if record.key is None:
            self.context.drop("null key")
            return
        change, plan = record.value, self._plan
        if plan.uses_versions and not change.is_latest:
            self.context.drop("out-of-order update of a versioned table")
            return
        row = self._getter.get(record.key)
        other = None if row is None else row.value
        new = old = None
        is_empty = change.new is None and change.old is None
        if other is None and (is_empty or plan.kind in (JoinKind.INNER, JoinKind.RIGHT)):
            return
        timestamp = record.timestamp if row is None or other is None else max(record.timestamp, row.timestamp)
        if self._joins(change.new, other):
            new = plan.join(change.new, other)
        if plan.sends_old and self._joins(change.old, other):
            old = plan.join(change.old, other)
        self.context.forward(Record(record.key, Change(new, old, change.is_latest), timestamp, record.headers))

    def _joins(self, this: Any, other: Any) -> bool:
        kind = self._plan.kind
        if kind is JoinKind.RIGHT:
            return True
        return this is not None or (kind is JoinKind.OUTER and other is not None)


class _JoinView:
    """The rows of a join that has no store of its own, computed from both tables."""

    def __init__(self, plan: TableJoinSide) -> None:
        self._plan = plan
        self._views = (plan.this.view(), plan.other.view())

    @property
    def stores(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self._views[0].stores, *self._views[1].stores]))

    def getter(self, context: ProcessorContext) -> Getter:
        return _JoinGetter(self._plan, self._views[0].getter(context), self._views[1].getter(context))


class _JoinGetter:
    is_versioned = False

    def __init__(self, plan: TableJoinSide, this: Getter, other: Getter) -> None:
        self._plan = plan
        self._this = this
        self._other = other

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None:  # noqa: ARG002
        kind = self._plan.kind
        this, other = self._this.get(key), self._other.get(key)
        needs_this = kind in (JoinKind.INNER, JoinKind.LEFT)
        needs_other = kind in (JoinKind.INNER, JoinKind.RIGHT)
        if (needs_this and this is None) or (needs_other and other is None) or (this is None and other is None):
            return None
        value = self._plan.join(None if this is None else this.value, None if other is None else other.value)
        timestamp = max(
            NO_TIMESTAMP if this is None else this.timestamp, NO_TIMESTAMP if other is None else other.timestamp
        )
        return None if value is None else ValueAndTimestamp(value, timestamp)


class TableJoinMerge:
    """The table that a join of tables yields."""

    def __init__(self, left: TableJoinSide, right: TableJoinSide, queryable: str | None) -> None:
        self._sides = (left, right)
        self.queryable = queryable
        self.sends_old = False

    def __call__(self) -> Processor:
        return _MergeProcessor(self.queryable, sends_old=self.sends_old)

    def view(self) -> View:
        return StoreView(self.queryable) if self.queryable is not None else self._sides[0].view()

    def send_old_values(self, *, force: bool) -> bool:
        for side in self._sides:
            side.send_old_values(force=force)
        self.sends_old = True
        return True


class _MergeProcessor(OptionalStoreProcessor):
    def process(self, record: Record) -> None:
        change = record.value
        if self._store is not None:
            put_and_forward(self.context, self._store, record, change.new, change.old, sends_old=self._sends_old)
        elif self._sends_old:
            self.context.forward(record)
        else:
            self.context.forward(record.with_value(Change(change.new, None, change.is_latest)))
