"""The Processor API: what authors of processors subclass, and the context that they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from ottla.streams.errors import StoreNotFoundError, StreamsError
from ottla.streams.record import Record, RecordMetadata
from ottla.streams.serdes import Serde

if TYPE_CHECKING:
    from ottla.streams.machine.task import StreamTask

__all__ = [
    "Cancellable",
    "FixedKeyProcessor",
    "PreparedProcessor",
    "Processor",
    "ProcessorContext",
    "PunctuationType",
]


class PunctuationType(Enum):
    """Whether a punctuator follows the timestamps of records or the clock of the machine."""

    STREAM_TIME = "stream time"
    WALL_CLOCK_TIME = "wall-clock time"


class Processor:
    """One node of a topology, for one task."""

    def init(self, context: ProcessorContext) -> None:
        """Called once before the first record, when the stores are restored."""
        self.context = context

    def process(self, record: Record) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Called once after the last record."""


class PreparedProcessor(Processor):
    """An operator that determines what a restore of its store keeps."""

    def prepare(self, context: ProcessorContext) -> None:
        """Called once before the stores are restored."""
        raise NotImplementedError


class FixedKeyProcessor(Processor):
    """A processor that forwards records with the keys that they came with (`process_values`)."""


class Cancellable:
    """A scheduled punctuation."""

    def __init__(self, next_ms: int, interval_ms: int, node: str, callback: Callable[[int], None]) -> None:
        self.next_ms = next_ms
        self.interval_ms = interval_ms
        self.node = node
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def advance(self, now_ms: int) -> None:
        """Sets the next time on the grid of intervals; missed intervals are skipped."""
        self.next_ms += self.interval_ms * max(1, (now_ms - self.next_ms) // self.interval_ms + 1)


class ProcessorContext:
    """The API of a processor: forward records, use its stores, schedule punctuations."""

    def __init__(self, task: StreamTask, node: str, stores: frozenset[str]) -> None:
        self._task = task
        self.node_name = node
        self._stores = stores
        self._targets: list[Callable[[Record], None]] = []
        self._targets_by_name: dict[str, Callable[[Record], None]] = {}

    def add_child(self, name: str, process: Callable[[Record], None]) -> None:
        self._targets.append(process)
        self._targets_by_name[name] = process

    def forward(self, record: Record, child: str | None = None) -> None:
        """Passes a record on to all children, in the order in which they were added, or to one of them."""
        task = self._task
        before, timestamp = task.timestamp, record.timestamp
        if timestamp < 0:
            raise StreamsError(f"{self.node_name} forwarded a record with the negative timestamp {timestamp}.")
        task.timestamp = timestamp
        if child is None:
            for process in self._targets:
                process(record)
        else:
            if child not in self._targets_by_name:
                raise StreamsError(f"{self.node_name} has no child {child}; it has {sorted(self._targets_by_name)}.")
            self._targets_by_name[child](record)
        task.timestamp = before

    def forward_buffered(self, record: Record, metadata: RecordMetadata | None) -> None:
        """Passes on a record that has waited in a buffer. Later operators see where it came from."""
        with self.origin(metadata):
            self.forward(record)

    @contextmanager
    def origin(self, metadata: RecordMetadata | None) -> Iterator[None]:
        """Within the block, later operators see where a record came from that has waited in a buffer."""
        task = self._task
        before, task.place = task.place, None if metadata is None else (metadata, metadata.offset, None)
        try:
            yield
        finally:
            task.place = before

    def get_state_store(self, name: str) -> Any:
        store = self._task.global_stores.get(name)
        if store is not None:
            return store
        if name not in self._stores:
            raise StoreNotFoundError(
                f"Processor {self.node_name} has no store {name}; connect it where the processor is added, "
                f"as in process(supplier, {name!r})."
            )
        return self._task.stores[name]

    def schedule(self, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None]) -> Cancellable:
        """Calls back with the current time, once in every interval of stream time or of wall-clock time."""
        if interval_ms < 1:
            raise StreamsError(f"{self.node_name}: the interval of a punctuation is at least 1 ms, not {interval_ms}.")
        return self._task.schedule(self.node_name, interval_ms, kind, callback)

    def shared(self, name: str, create: Callable[[], Any]) -> Any:
        """State that several processors of a task share without a store."""
        return self._task.shared.setdefault(name, create())

    def resolve_key(self, serde: Serde | None) -> Serde:
        """A serde for keys, or the default of the application."""
        return self._task.settings.resolve_key(serde)

    def resolve_value(self, serde: Serde | None) -> Serde:
        return self._task.settings.resolve_value(serde)

    def remember(self, name: str, value: int) -> None:
        """Commits a number with the offsets of the task; `remembered` gives it back after a restart."""
        self._task.processor_metadata[name] = value

    def remembered(self, name: str) -> int | None:
        return self._task.processor_metadata.get(name)

    def commit(self) -> None:
        """Requests a commit as soon as possible."""
        self._task.commit_requested = True

    @property
    def application_id(self) -> str:
        return self._task.settings.application_id

    @property
    def task_id(self) -> str:
        return self._task.task_id

    @property
    def config(self) -> dict[str, Any]:
        return self._task.settings.properties

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """None during punctuations."""
        return self._task.metadata

    @property
    def timestamp(self) -> int:
        return self._task.timestamp

    def current_stream_time_ms(self) -> int:
        return self._task.stream_time

    def current_system_time_ms(self) -> int:
        return self._task.now_ms

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts records that an operator skips, for instance because of a null key."""
        name = f"{self.node_name}: {reason}"
        self._task.dropped[name] = self._task.dropped.get(name, 0) + count
