"""Global tables on disk: one state for each worker, with the positions of all partitions of their topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ottla.model.ids import TopicPartition
from ottla.streams.disk import TaskState
from ottla.streams.disk.task_state import Checkpoint
from ottla.streams.state.store import Store

__all__ = ["GlobalState"]

_log = logging.getLogger(__name__)

_INTERVAL_S = 10.0
# As for the stores of tasks: topics are compacted, and their tombstones are removed after a day.
_AGE_MS_MAX = 23 * 60 * 60 * 1000
_SHARE_UNWRITTEN = 4


class GlobalState:
    """A local commit has all changes and all positions in one transaction: processors may not be repeatable."""

    def __init__(
        self, state: TaskState, stores: Mapping[str, Store], topic_ids: Mapping[str, str], memory_bytes: int
    ) -> None:
        self._state = state
        self._stores = stores
        self._topic_ids = topic_ids
        self._memory_bytes = memory_bytes
        self._due = time.monotonic() + _INTERVAL_S

    def attach(
        self, first: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Gives stores their tables. `first` and `ends` are offsets of topics; returns the positions to read from."""
        checkpoints = {place: self._state.checkpoint(_name(place)) for place in first}
        tables = {name: self._state.table(name, store.specification.kind.value) for name, store in self._stores.items()}
        reason = self._misfit(checkpoints, first, ends)
        if not reason and any(checkpoint is None for _, checkpoint in tables.values()):
            reason = "a store is new"
        if reason:
            if any(checkpoints.values()):
                _log.warning("Global tables are read from the beginning: %s", reason)
            for name in tables:
                self._state.clear_table(name)
        for name, (table, checkpoint) in tables.items():
            if checkpoint is None or reason:
                self._stores[name].attach(table, self._stores[name].observed)
            else:
                self._stores[name].attach(table, checkpoint.observed, checkpoint.sequence)
        if reason:
            return dict(first)
        return {place: checkpoint.position for place, checkpoint in checkpoints.items() if checkpoint is not None}

    def on_read(self, positions: Mapping[TopicPartition, int]) -> None:
        """Stores have all records up to these positions."""
        unwritten = sum(store.unwritten_bytes for store in self._stores.values())
        if time.monotonic() >= self._due or unwritten > self._memory_bytes // _SHARE_UNWRITTEN:
            self._commit(positions)
        elif sum(store.memory_bytes for store in self._stores.values()) > self._memory_bytes:
            # Lookups also leave rows in memory.
            self._shrink()

    def close(self, positions: Mapping[TopicPartition, int]) -> None:
        try:
            if positions:
                self._commit(positions)
            self._state.close()
        except Exception:  # noqa: BLE001
            _log.exception("The last changes of global tables are not in the state directory.")
            self._state.abandon()

    def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        changes = {name: store.take_changes()._replace(is_repeatable=False) for name, store in self._stores.items()}
        now_ms = time.time_ns() // 1_000_000
        checkpoints = {
            name: Checkpoint("", 0, store.observed, now_ms, store.specification.kind.value, store.sequence)
            for name, store in self._stores.items()
        }
        for place, position in positions.items():
            topic_id = self._topic_ids.get(place.topic, "")
            checkpoints[_name(place)] = Checkpoint(topic_id, position, 0, now_ms)
        self._state.begin_commit(changes, checkpoints)
        while not self._state.advance():
            pass
        for store in self._stores.values():
            store.written()
        self._due = time.monotonic() + _INTERVAL_S
        if sum(store.memory_bytes for store in self._stores.values()) > self._memory_bytes:
            self._shrink()

    def _shrink(self) -> None:
        for store in self._stores.values():
            store.shrink()

    def _misfit(
        self,
        checkpoints: Mapping[TopicPartition, Checkpoint | None],
        first: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> str:
        for place, checkpoint in checkpoints.items():
            if checkpoint is None:
                return f"there is no position of {place}"
            if checkpoint.topic_id != self._topic_ids.get(place.topic, ""):
                return f"topic {place.topic} was created again"
            if not first[place] <= checkpoint.position <= ends[place]:
                return f"position {checkpoint.position} is not in {place}"
            if checkpoint.position < ends[place] and time.time_ns() // 1_000_000 - checkpoint.written_ms > _AGE_MS_MAX:
                return f"the state is older than a day, and {place} may have lost deletions"
        return ""


def _name(place: TopicPartition) -> str:
    return f"position of {place.topic}-{place.partition}"
