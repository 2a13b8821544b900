"""Suppression: a table's updates wait in a buffer until a time limit, or until their window is closed."""

from __future__ import annotations

from typing import Any

from ottla.streams.errors import StreamsError
from ottla.streams.machine.processor import Processor, ProcessorContext
from ottla.streams.operators.tables import Getter, View
from ottla.streams.record import NO_TIMESTAMP, Record, RecordMetadata, ValueAndTimestamp

__all__ = ["Suppress"]


class Suppress:
    """The plan of a suppression. With `is_final` only the last update of a closed window comes out."""

    def __init__(
        self,
        parent: Any,
        store: str,
        *,
        wait_ms: int,
        is_final: bool,
        records_max: int | None,
        bytes_max: int | None,
        emits_early: bool,
    ) -> None:
        self.parent = parent
        self.store = store
        self.wait_ms = wait_ms
        self.is_final = is_final
        self.records_max = records_max
        self.bytes_max = bytes_max
        self.emits_early = emits_early
        # Later operators may read the row before the updates that wait in the buffer.
        self.sends_old = parent.send_old_values(force=True)

    def __call__(self) -> Processor:
        return _SuppressProcessor(self)

    def view(self) -> View:
        return _SuppressView(self)

    def send_old_values(self, *, force: bool) -> bool:
        self.sends_old = bool(self.parent.send_old_values(force=force))
        return self.sends_old


class _SuppressProcessor(Processor):
    def __init__(self, plan: Suppress) -> None:
        self._plan = plan
        self._observed = NO_TIMESTAMP

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._buffer = context.get_state_store(self._plan.store)

    def process(self, record: Record) -> None:
        self._observed = max(self._observed, record.timestamp)
        time = record.key.window.end if self._plan.is_final else record.timestamp
        self._buffer.put(time, record)
        limit = self._observed - self._plan.wait_ms
        self._buffer.evict_while(lambda: self._buffer.first_time <= limit, self._emit)
        if not self._is_full():
            return
        if not self._plan.emits_early:
            raise StreamsError(
                f"The buffer {self._plan.store} is full with {len(self._buffer)} records and "
                f"{self._buffer.size_bytes} bytes; allow more, or let it emit early."
            )
        self._buffer.evict_while(self._is_full, self._emit)

    def _is_full(self) -> bool:
        plan = self._plan
        return (plan.records_max is not None and len(self._buffer) > plan.records_max) or (
            plan.bytes_max is not None and self._buffer.size_bytes > plan.bytes_max
        )

    def _emit(self, record: Record, metadata: RecordMetadata | None) -> None:
        if record.value.new is not None or not self._plan.is_final:
            self.context.forward_buffered(record, metadata)


class _SuppressView:
    """Later operators see the rows that came out of the buffer, not those that wait in it."""

    def __init__(self, plan: Suppress) -> None:
        self._plan = plan
        self._parent: View = plan.parent.view()

    @property
    def stores(self) -> tuple[str, ...]:
        return (self._plan.store, *self._parent.stores)

    def getter(self, context: ProcessorContext) -> Getter:
        return _SuppressGetter(context.get_state_store(self._plan.store), self._parent.getter(context))


class _SuppressGetter:
    is_versioned = False

    def __init__(self, buffer: Any, parent: Getter) -> None:
        self._buffer = buffer
        self._parent = parent

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None:  # noqa: ARG002
        is_buffered, prior = self._buffer.prior(key)
        if not is_buffered:
            return self._parent.get(key)
        return None if prior is None else ValueAndTimestamp(prior, NO_TIMESTAMP)
