"""A stream task: one partition of one sub-topology, as a state machine without I/O and without a clock.

Records come in by `enqueue`, the time by `now_ms`; `run` processes waiting records and `take_outputs` returns
the results: records for topics and for changelogs, in the order in which they were written.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ottla.streams.errors import StreamsError
from ottla.streams.machine.faults import FaultHandling
from ottla.streams.machine.handlers import OutputRecord, SerializationExceptionOrigin
from ottla.streams.machine.processor import Cancellable, PreparedProcessor, ProcessorContext, PunctuationType
from ottla.streams.machine.record_cache import CacheBudget, UpdateCache
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.record import NO_TIMESTAMP, Headers, Record, RecordMetadata
from ottla.streams.state.create import create_store
from ottla.streams.state.store import Store
from ottla.streams.topology.topology import ProcessorNode, SinkNode, SourceNode, Topology

__all__ = ["ChangelogColumns", "ChangelogRecord", "InputRecord", "OutputRecord", "StreamTask"]


class Incoming(Protocol):
    """A record of an input partition: an `InputRecord`, or a record of a consumer."""

    @property
    def key(self) -> Any: ...

    @property
    def value(self) -> Any: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class InputRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp: int
    offset: int = 0
    headers: Headers = ()


class ChangelogRecord(NamedTuple):
    store: str
    key: bytes
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class ChangelogColumns(NamedTuple):
    """Changes of a store by one batch: lists, or Arrow arrays of keys that are new."""

    store: str
    keys: Any
    values: Any
    timestamps: Any

    def rows(self) -> Iterator[tuple[bytes, bytes | None, int]]:
        """Key, value and timestamp of every change."""
        columns = (getattr(column, "tolist", lambda column=column: column)() for column in self[1:])
        return zip(*columns, strict=True)


class _Queue:
    """The waiting records of one input partition."""

    __slots__ = (
        "forward",
        "key_serde",
        "partition",
        "partition_time",
        "records",
        "source",
        "timestamp_of",
        "topic",
        "value_serde",
    )

    def __init__(
        self,
        source: SourceNode,
        topic: str,
        partition: int,
        settings: TaskSettings,
        forward: Callable[[Record], None],
    ) -> None:
        self.source = source.name
        self.topic = topic
        self.partition = partition
        self.key_serde = settings.resolve_key(source.key_serde)
        self.value_serde = settings.resolve_value(source.value_serde)
        self.timestamp_of = source.timestamp_extractor
        self.partition_time = NO_TIMESTAMP
        # With their offsets and, if a handler may need them, the source records.
        self.records: deque[tuple[Record, int, Incoming | None]] = deque()
        self.forward = forward


def _decoded(queue: _Queue, record: Incoming) -> Record:
    key, value = record.key, record.value
    return Record(
        None if key is None else queue.key_serde.deserialize(queue.topic, key),
        None if value is None else queue.value_serde.deserialize(queue.topic, value),
        record.timestamp,
        tuple(record.headers) if record.headers else (),
    )


class StreamTask:
    """All input partitions of a task have the same partition number."""

    def __init__(
        self,
        topology: Topology,
        names: Iterable[str],
        settings: TaskSettings,
        *,
        task_id: str = "0_0",
        now_ms: int = 0,
        global_stores: dict[str, Store] | None = None,
        processor_metadata: Mapping[str, int] | None = None,
        partition_times: Mapping[tuple[str, int], int] | None = None,
        cache: CacheBudget | None = None,
        is_restored: bool = True,
    ) -> None:
        """With `is_restored=False` the owner restores the stores and then calls `initialize`."""
        self.settings = settings
        self.task_id = task_id
        self.now_ms = now_ms
        self.timestamp = NO_TIMESTAMP
        # State of the task's previous run at its last commit.
        self.processor_metadata: dict[str, int] = dict(processor_metadata or {})
        self.partition_times: dict[tuple[str, int], int] = dict(partition_times or {})
        self.stream_time = max(self.partition_times.values(), default=NO_TIMESTAMP)
        # The partition and offset of the record that is being processed.
        self.place: tuple[_Queue | RecordMetadata, int, Incoming | None] | None = None
        self._faults = FaultHandling(self)
        self.commit_requested = False
        self.outputs: list[OutputRecord] = []
        self.changelog: list[ChangelogRecord] = []
        # Changes by column forms; within a step of a task they come before those in `changelog`.
        self.changelog_columns: list[ChangelogColumns] = []
        self.dropped: dict[str, int] = {}
        self.stores: dict[str, Store] = {}
        self.global_stores = global_stores or {}
        self.shared: dict[str, Any] = {}
        self._topology = topology
        self._names = [name for name in topology.nodes if name in set(names)]
        self._queues: dict[tuple[str, int], _Queue] = {}
        self._waiting: list[tuple[int, int, _Queue]] = []
        self._turn = 0
        self._punctuations: dict[PunctuationType, list[Cancellable]] = {kind: [] for kind in PunctuationType}
        self._by_stream_time = self._punctuations[PunctuationType.STREAM_TIME]
        self._sources: dict[str, tuple[SourceNode, ProcessorContext]] = {}
        self._patterns: list[tuple[SourceNode, ProcessorContext]] = []
        # Processors that `initialize` has not reached, and processors that `close` closes.
        self._uninitialized: list[tuple[Any, ProcessorContext]] = []
        self._processors: list[Any] = []
        self.processors: dict[str, Any] = {}
        self._cache = cache
        self._create_stores()
        self._connect()
        if is_restored:
            self.initialize()

    # Called by the owner of the task.

    def initialize(self) -> None:
        """Initializes the processors, which may read their stores."""
        while self._uninitialized:
            processor, context = self._uninitialized.pop(0)
            self._processors.append(processor)
            processor.init(context)

    def enqueue(self, topic: str, partition: int, records: Iterable[Incoming]) -> None:
        """Adds records of an input partition. Records whose timestamp is negative are dropped."""
        queue = self._queues.get((topic, partition)) or self._new_queue(topic, partition)
        was_empty = not queue.records
        keeps_source = self._faults.keeps_source
        for record in records:
            decoded = self._decode(queue, record)
            if decoded is not None:
                queue.records.append((decoded, record.offset, record if keeps_source else None))
        self.partition_times[topic, partition] = queue.partition_time
        if was_empty and queue.records:
            self._wait(queue)

    def timestamp_reader(self, topic: str, partition: int) -> Callable[[Iterable[Incoming]], list[int]] | None:
        """A function that extracts timestamps of records before they are enqueued; None without an extractor."""
        queue = self._queues.get((topic, partition)) or self._new_queue(topic, partition)
        extract, latest = queue.timestamp_of, queue.partition_time
        if extract is None:
            return None

        def read(records: Iterable[Incoming]) -> list[int]:
            nonlocal latest
            timestamps = []
            for record in records:
                try:
                    timestamp = extract(_decoded(queue, record), latest)
                except Exception:  # noqa: BLE001
                    # The record fails again in `enqueue`, which calls the handlers.
                    timestamp = NO_TIMESTAMP
                latest = max(latest, timestamp)
                timestamps.append(timestamp)
            return timestamps

        return read

    def run(self, limit: int | None = None) -> int:
        """Processes waiting records, the smallest timestamp first; returns their number."""
        done = 0
        while self._waiting and (limit is None or done < limit):
            queue = heapq.heappop(self._waiting)[2]
            if not self._waiting and limit is None:
                # Only one partition has records: they keep their order.
                records, queue.records = queue.records, deque()
                for record, offset, source in records:
                    self._process(queue, record, offset, source)
                done += len(records)
                continue
            record, offset, source = queue.records.popleft()
            if queue.records:
                self._wait(queue)
            self._process(queue, record, offset, source)
            done += 1
        return done

    def punctuate_wall_clock(self, now_ms: int) -> None:
        """The clock advanced: runs the punctuations that are due."""
        self.now_ms = now_ms
        self._punctuate(PunctuationType.WALL_CLOCK_TIME, now_ms)

    def advance_time(self, topic: str, partition: int, timestamp: int) -> None:
        """Records of a partition up to this timestamp were processed in column form."""
        self.stream_time = max(self.stream_time, timestamp)
        place = (topic, partition)
        self.partition_times[place] = max(self.partition_times.get(place, NO_TIMESTAMP), timestamp)
        if place in self._queues:
            self._queues[place].partition_time = self.partition_times[place]

    def flush(self) -> None:
        """Called before a commit: stores write the changes to their changelogs that they have held back."""
        for store in self.stores.values():
            if store.cache is not None:
                store.cache.flush()
            store.flush()

    def take_outputs(self) -> tuple[list[OutputRecord], list[ChangelogRecord]]:
        taken = self.outputs, self.changelog
        self.outputs, self.changelog = [], []
        return taken

    def take_changelog_columns(self) -> list[ChangelogColumns]:
        """Changes by column forms. They precede the changes of `take_outputs`."""
        taken, self.changelog_columns = self.changelog_columns, []
        return taken

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def close(self) -> None:
        for store in self.stores.values():
            if store.cache is not None:
                store.cache.discard()
        failures = []
        for processor in self._processors:
            try:
                processor.close()
            except Exception as error:  # noqa: BLE001
                # The other processors are closed, too.
                failures.append(error)
        if failures:
            raise failures[0]

    @property
    def metadata(self) -> RecordMetadata | None:
        """Where the record that is being processed came from; None during punctuations."""
        if self.place is None:
            return None
        queue, offset, _ = self.place
        return RecordMetadata(queue.topic, queue.partition, offset)

    @property
    def source_record(self) -> Incoming | None:
        """The record that is being processed, as it was read; kept for exception handlers only."""
        return None if self.place is None else self.place[2]

    @property
    def source_topics(self) -> set[str]:
        return set(self._sources)

    def pattern_source(self, topic: str) -> tuple[SourceNode, ProcessorContext] | None:
        """The source whose pattern matches a topic."""
        for source, context in self._patterns:
            if source.pattern is not None and source.pattern.fullmatch(topic):
                return source, context
        return None

    # Called by processors and stores.

    def log(self, store: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        self.changelog.append(ChangelogRecord(store, key, value, timestamp, headers))

    def log_many(self, store: str, keys: Any, values: Any, timestamps: Any) -> None:
        self.changelog_columns.append(ChangelogColumns(store, keys, values, timestamps))

    def schedule(
        self, node: str, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None]
    ) -> Cancellable:
        # Stream time begins on the grid of intervals, so the first record punctuates.
        first = 0 if kind is PunctuationType.STREAM_TIME else self.now_ms + interval_ms
        scheduled = Cancellable(first, interval_ms, node, callback)
        self._punctuations[kind].append(scheduled)
        return scheduled

    # Internals.

    def _create_stores(self) -> None:
        for name in self._names:
            node = self._topology.nodes[name]
            for store in node.stores if isinstance(node, ProcessorNode) else ():
                if store in self.stores:
                    continue
                specification = self._topology.stores.get(store) or self._topology.global_stores[store]
                topic = self._topology.store_source_topics.get(store) or self.settings.changelog(store)
                self.stores[store] = create_store(
                    specification,
                    self,
                    topic,
                    self.settings.resolve_key(specification.key_serde),
                    self.settings.resolve_value(specification.value_serde),
                )
                if store in self._topology.store_source_topics:
                    self.stores[store].disable_logging()
                if self._cache is not None and self._cache.bytes_max > 0 and specification.is_cached:
                    self.stores[store].cache = UpdateCache(self._cache, self)

    def _connect(self) -> None:
        contexts: dict[str, ProcessorContext] = {}
        for name in self._names:
            node = self._topology.nodes[name]
            process: Callable[[Record], None] | None = None
            if isinstance(node, SinkNode):
                process = self._sink(node)
            else:
                stores = frozenset(node.stores) if isinstance(node, ProcessorNode) else frozenset[str]()
                contexts[name] = ProcessorContext(self, name, stores)
            if isinstance(node, SourceNode):
                if node.pattern is not None:
                    self._patterns.append((node, contexts[name]))
                for topic in node.topics:
                    full = self.settings.internal_topic(topic) if topic in self._topology.internal_topics else topic
                    self._sources[full] = (node, contexts[name])
            elif isinstance(node, ProcessorNode):
                processor = node.supplier()
                process = self._faults.guarded(name, processor.process)
                self._uninitialized.append((processor, contexts[name]))
                self.processors[name] = processor
            for parent in dict.fromkeys(node.predecessors):
                assert process is not None
                contexts[parent].add_child(name, process)
        for processor, context in self._uninitialized:
            if isinstance(processor, PreparedProcessor):
                processor.prepare(context)

    def _sink(self, node: SinkNode) -> Callable[[Record], None]:
        key_serde = self.settings.resolve_key(node.key_serde)
        value_serde = self.settings.resolve_value(node.value_serde)
        internal = self._topology.internal_topics
        topic_of, partitioner = node.topic, node.partitioner
        keeps_origin = self._faults.keeps_origin
        constant = ""
        if isinstance(topic_of, str):
            constant = self.settings.internal_topic(topic_of) if topic_of in internal else topic_of

        def write(record: Record) -> None:
            topic = constant or topic_of(record.key, record.value, self.metadata)  # type: ignore[operator]
            partition = None
            if partitioner is not None:
                partition = partitioner(topic, record.key, record.value, self.settings.partitions_of(topic))
            origin = SerializationExceptionOrigin.KEY
            try:
                key = None if record.key is None else key_serde.serialize(topic, record.key)
                origin = SerializationExceptionOrigin.VALUE
                value = None if record.value is None else value_serde.serialize(topic, record.value)
            except Exception as error:  # noqa: BLE001
                self._faults.on_unserializable(node.name, topic, record, error, origin)
                return
            context = self._faults.context(node.name) if keeps_origin else None
            self.outputs.append(OutputRecord(topic, key, value, record.timestamp, record.headers, partition, context))

        return self._faults.guarded(node.name, write)

    def _new_queue(self, topic: str, partition: int) -> _Queue:
        registration = self._sources.get(topic) or self.pattern_source(topic)
        if registration is None:
            raise StreamsError(f"Task {self.task_id} does not read {topic}; it reads {sorted(self._sources)}.")
        source, context = registration
        queue = self._queues[topic, partition] = _Queue(source, topic, partition, self.settings, context.forward)
        queue.partition_time = self.partition_times.get((topic, partition), NO_TIMESTAMP)
        return queue

    def _decode(self, queue: _Queue, record: Incoming) -> Record | None:
        try:
            decoded = _decoded(queue, record)
        except Exception as error:  # noqa: BLE001
            self._faults.on_undecodable(queue.source, queue.topic, queue.partition, record, error)
            return None
        if queue.timestamp_of is not None:
            decoded.timestamp = queue.timestamp_of(decoded, queue.partition_time)
        if decoded.timestamp < 0:
            self.dropped["negative timestamp"] = self.dropped.get("negative timestamp", 0) + 1
            return None
        if decoded.timestamp > queue.partition_time:
            queue.partition_time = decoded.timestamp
        return decoded

    def _wait(self, queue: _Queue) -> None:
        self._turn += 1
        heapq.heappush(self._waiting, (queue.records[0][0].timestamp, self._turn, queue))

    def _process(self, queue: _Queue, record: Record, offset: int, source: Incoming | None) -> None:
        self.place = (queue, offset, source)
        self.timestamp = record.timestamp
        if record.timestamp > self.stream_time:
            self.stream_time = record.timestamp
        try:
            queue.forward(record)
        except Exception as error:
            error.add_note(f"Task {self.task_id}, {queue.topic}-{queue.partition} at offset {offset}.")
            raise
        self.place = None
        if self._by_stream_time:
            self._punctuate(PunctuationType.STREAM_TIME, self.stream_time)

    def _punctuate(self, kind: PunctuationType, now_ms: int) -> None:
        scheduled = self._punctuations[kind]
        while True:
            scheduled[:] = [punctuation for punctuation in scheduled if not punctuation.is_cancelled]
            due = min(scheduled, key=lambda punctuation: punctuation.next_ms, default=None)
            if due is None or due.next_ms > now_ms:
                return
            due.advance(now_ms)
            # The punctuation that ran goes to the end, so that punctuations with equal times take turns.
            scheduled.remove(due)
            scheduled.append(due)
            self.timestamp = now_ms
            self.place = None
            self._faults.punctuate(due, now_ms)
