"""The test driver: one task that holds the whole topology, fed by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

from ottla.streams.driver.topics import TestInputTopic, TestOutputTopic
from ottla.streams.errors import StreamsError
from ottla.streams.machine.record_cache import CacheBudget
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.machine.task import ChangelogRecord, InputRecord, OutputRecord, StreamTask
from ottla.streams.record import Headers
from ottla.streams.serdes import Serde
from ottla.streams.topology.topology import Topology

__all__ = ["TopologyTestDriver"]

# A running application looks for closed windows once in a second; a test sees them with the next record.
_EMIT_AT_ONCE = {
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
}


class TopologyTestDriver:
    """Runs a topology record by record. Time stands still until the test advances it.

    Serdes default to `default.key.serde` and `default.value.serde` of the properties, and those to bytes.
    """

    __test__ = False

    def __init__(
        self, topology: Topology, properties: Mapping[str, Any] | None = None, *, initial_wall_clock_ms: int = 0
    ) -> None:
        topology.check()
        self._topology = topology
        self._settings = TaskSettings.from_properties({**_EMIT_AT_ONCE, **(properties or {})})
        self.now_ms = initial_wall_clock_ms
        self.written: dict[str, deque[OutputRecord]] = {}
        # Changelog records by store, in the order in which they were written.
        self.changelogs: dict[str, list[ChangelogRecord]] = {}
        self._offsets: dict[str, int] = {}
        groups = topology.node_groups().values()
        global_names = [name for names in groups if topology.is_global(names) for name in names]
        local_names = [name for names in groups if not topology.is_global(names) for name in names]
        self._global = StreamTask(topology, global_names, self._settings, task_id="-1_0", now_ms=self.now_ms)
        self._task = StreamTask(
            topology,
            local_names,
            self._settings,
            now_ms=self.now_ms,
            global_stores=self._global.stores,
            cache=CacheBudget(int((properties or {}).get("statestore.cache.max.bytes", 0))),
        )
        self._collect()

    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        *,
        start_timestamp: int | None = None,
        auto_advance: int | timedelta = 0,
    ) -> TestInputTopic:
        known = self._task.source_topics | self._global.source_topics
        if topic not in known and not self._matches_pattern(topic):
            raise StreamsError(f"The topology does not read {topic}; it reads {', '.join(sorted(known))}.")
        step = auto_advance // timedelta(milliseconds=1) if isinstance(auto_advance, timedelta) else auto_advance
        return TestInputTopic(
            self,
            topic,
            self._settings.resolve_key(key_serde),
            self._settings.resolve_value(value_serde),
            start_ms=start_timestamp,
            advance_ms=step,
        )

    def create_output_topic(
        self, topic: str, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> TestOutputTopic:
        return TestOutputTopic(
            self, topic, self._settings.resolve_key(key_serde), self._settings.resolve_value(value_serde)
        )

    def advance_wall_clock_time(self, duration: int | timedelta) -> None:
        """Advances the clock, in milliseconds or as a timedelta, and runs the punctuations that are due."""
        step = duration // timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration
        self.now_ms += step
        self._task.punctuate_wall_clock(self.now_ms)
        self._collect()
        self._process_all()

    def get_state_store(self, name: str) -> Any:
        """A store of the topology; None if there is no such store."""
        return self.get_all_state_stores().get(name)

    get_key_value_store = get_state_store
    get_timestamped_key_value_store = get_state_store
    get_versioned_key_value_store = get_state_store
    get_window_store = get_state_store
    get_session_store = get_state_store

    def get_all_state_stores(self) -> dict[str, Any]:
        return {**self._task.stores, **self._global.stores}

    def dropped_records(self) -> dict[str, int]:
        """How many records operators have skipped, by operator and reason."""
        return dict(self._task.dropped)

    def produced_topic_names(self) -> set[str]:
        return set(self.written)

    def close(self) -> None:
        self._task.close()
        self._global.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Pipes a record as bytes and processes all that follows from it."""
        self._enqueue(topic, key, value, timestamp, headers)
        self._process_all()

    def _enqueue(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        offset = self._offsets.get(topic, -1) + 1
        self._offsets[topic] = offset
        record = InputRecord(key, value, timestamp, offset, headers)
        if topic in self._task.source_topics or self._matches_pattern(topic):
            self._task.enqueue(topic, 0, [record])
        if topic in self._global.source_topics:
            self._global.enqueue(topic, 0, [record])
            self._global.run()

    def _process_all(self) -> None:
        while self._task.run(1):
            self._collect()

    def _collect(self) -> None:
        """Collects the written records, and enqueues the records of topics that the topology reads."""
        self._task.flush()
        outputs, changelog = self._task.take_outputs()
        for change in changelog:
            self.changelogs.setdefault(change.store, []).append(change)
        for record in outputs:
            self.written.setdefault(record.topic, deque()).append(record)
            known = self._task.source_topics | self._global.source_topics
            if record.topic in known:
                self._enqueue(record.topic, record.key, record.value, record.timestamp, record.headers)

    def _matches_pattern(self, topic: str) -> bool:
        return self._task.pattern_source(topic) is not None
