"""The state on disk of a worker's tasks: the stores with tables, their checkpoints, and the times of local commits.

A local commit begins right after a commit of Kafka, at most every few seconds, and is written in slices between the
steps of the worker. State that a worker drops without a commit keeps what its last local commit wrote.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.model.ids import TopicPartition
from ottla.streams.disk import StateDirectory, TaskState
from ottla.streams.disk.task_state import Checkpoint
from ottla.streams.errors import StreamsError
from ottla.streams.runtime.global_state import GlobalState
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.state.specification import StoreSpecification
from ottla.streams.state.store import Store

__all__ = ["GLOBAL", "LocalStates", "is_persistent"]

_log = logging.getLogger(__name__)

# The prefix of the names of directories with global tables.
GLOBAL = "global"
_INTERVAL_S = 10.0
_LOCK_S = 60.0
# Tombstones of a changelog may be removed a day after they were written: older state cannot be brought up to date.
_AGE_MS_MAX = 23 * 60 * 60 * 1000
_SHARE_UNWRITTEN = 4


def is_persistent(specification: StoreSpecification, *, default: bool) -> bool:
    wanted = default if specification.is_persistent is None else specification.is_persistent
    return wanted and specification.can_persist


@dataclass(slots=True, kw_only=True)
class _LocalTask:
    state: TaskState
    stores: dict[str, Store] = field(default_factory=dict)
    places: dict[str, TopicPartition] = field(default_factory=dict)
    # False while stores are restored: they may be ahead of their positions.
    is_restored: bool = False


class LocalStates:
    """`directory` is None if nothing is kept on disk. `topic_ids` are those of all changelogs."""

    def __init__(
        self,
        directory: Path | None,
        topic_ids: Mapping[str, str],
        *,
        persists: bool = True,
        memory_bytes: int = 256 << 20,
        cleanup_delay_ms: int = 600_000,
    ) -> None:
        self._directory = None if directory is None else StateDirectory(directory)
        self._topic_ids = topic_ids
        self._persists = persists
        self._memory_bytes = memory_bytes
        self._tasks: dict[str, _LocalTask] = {}
        # The changelog positions of all stores, including stores in memory.
        self.positions: dict[TopicPartition, int] = {}
        self._due = 0.0
        self._followed_due = 0.0
        self._cleanup_s = cleanup_delay_ms / 1000
        self._cleanup_due = time.monotonic() + self._cleanup_s

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    def held(self) -> list[str]:
        """The tasks whose state is on this disk."""
        task_ids = [] if self._directory is None else self._directory.task_ids()
        return [name for name in task_ids if not name.startswith(GLOBAL)]

    # Opening.

    async def open(self, planned: PlannedTask, stores: Mapping[str, Store]) -> None:
        """Takes the directory of a task, if one of its stores is persistent. Waits for its earlier user."""
        persistent = [
            store
            for name, store in stores.items()
            if name in planned.changelogs and is_persistent(store.specification, default=self._persists)
        ]
        if self._directory is None or not persistent or planned.task_id in self._tasks:
            return
        end = time.monotonic() + _LOCK_S
        while (locked := self._directory.try_lock(planned.task_id)) is None:
            if time.monotonic() > end:
                raise StreamsError(
                    f"The state of task {planned.task_id} in {self._directory.path} is in use by process "
                    f"{self._directory.holder(planned.task_id)}; end it, or set another state.dir."
                )
            await asyncio.sleep(0.05)
        self._tasks[planned.task_id] = _LocalTask(state=TaskState(locked))

    def open_global(self, name: str, stores: Mapping[str, Store]) -> GlobalState | None:
        """The state of the global tables of a worker; None if one of them is in memory."""
        if self._directory is None or not stores:
            return None
        if not all(is_persistent(store.specification, default=self._persists) for store in stores.values()):
            return None
        locked = self._directory.try_lock(name)
        if locked is None:
            _log.warning("Global tables are in memory: process %s uses their state.", self._directory.holder(name))
            return None
        return GlobalState(TaskState(locked), stores, self._topic_ids, self._memory_bytes)

    def attach(self, planned: PlannedTask, store: Store, *, first: int, end: int) -> int:
        """Gives a store its table if it has one, and returns the offset of the changelog from which to restore.

        `first` and `end` are offsets of the changelog. A table that does not fit to them is emptied.
        """
        place = TopicPartition(planned.changelogs[store.name], planned.partition)
        local = self._tasks.get(planned.task_id)
        if local is None or not is_persistent(store.specification, default=self._persists):
            self.positions[place] = first
            return first
        table, checkpoint = local.state.table(store.name, store.specification.kind.value)
        reason = "" if checkpoint is None else self._misfit(checkpoint, place, first, end)
        if reason:
            _log.warning("Store %s of task %s starts anew: %s", store.name, planned.task_id, reason)
            local.state.clear_table(store.name)
            checkpoint = None
        if checkpoint is not None:
            store.attach(table, checkpoint.observed, checkpoint.sequence)
        else:
            store.attach(table, store.observed)
        local.stores[store.name] = store
        local.places[store.name] = place
        position = first if checkpoint is None else max(first, checkpoint.position)
        self.positions[place] = position
        return position

    def _misfit(self, checkpoint: Checkpoint, place: TopicPartition, first: int, end: int) -> str:
        if checkpoint.topic_id != self._topic_ids.get(place.topic, ""):
            return f"topic {place.topic} was created again"
        if checkpoint.position > end:
            return f"its position {checkpoint.position} is beyond the end of {place}, {end}"
        if checkpoint.position == end:
            return ""
        if checkpoint.position < first:
            return f"its position {checkpoint.position} is before the first record of {place}, {first}"
        if _now_ms() - checkpoint.written_ms > _AGE_MS_MAX:
            return f"it is older than a day, and {place} may have lost deletions"
        return ""

    def load(
        self,
        planned: PlannedTask,
        store: Store,
        rows: Iterable[tuple[bytes, bytes]],
        deleted: list[bytes],
        position: int,
    ) -> Iterator[None]:
        """A part of a restore, straight into the table: stored keys in their order. Each step writes a slice."""
        local = self._tasks[planned.task_id]
        place = local.places[store.name]
        checkpoint = self._checkpoint(store, place)._replace(position=position)
        yield from local.state.load(store.name, rows, deleted, checkpoint)
        # Only now: a local commit in between must not cover rows that are not written yet.
        self.positions[place] = position

    def has_table(self, planned: PlannedTask, store: Store) -> bool:
        local = self._tasks.get(planned.task_id)
        return local is not None and store.name in local.stores

    # Running.

    def on_restored(self, task_ids: Iterable[str]) -> None:
        """The stores of tasks are at their positions; local commits may begin."""
        for task_id in task_ids:
            if task_id in self._tasks:
                self._tasks[task_id].is_restored = True

    def on_commit(self, positions: Mapping[TopicPartition, int], now: float) -> None:
        """Kafka has committed everything that stores hold. `positions` has the changelogs that were written."""
        self.positions.update(positions)
        if now >= self._due or self.is_full:
            self._due = now + _INTERVAL_S
            for local in self._tasks.values():
                if local.is_restored and not local.state.is_writing:
                    self._begin(local)

    def on_followed(self, task_ids: Collection[str], now: float) -> None:
        """Standby copies have applied records of their changelogs, which are committed."""
        if now >= self._followed_due:
            self._followed_due = now + _INTERVAL_S
            for task_id in task_ids:
                local = self._tasks.get(task_id)
                if local is not None and not local.state.is_writing:
                    self._begin(local)
        self.advance()

    def advance(self) -> None:
        """Writes a slice of a local commit that is under way. Called often, also if nothing is committed."""
        self._limit_memory()
        for local in self._tasks.values():
            if local.state.is_writing:
                self._advance(local)
                if not self.is_full:
                    return

    def clean_up(self) -> None:
        """Removes directories of tasks that run elsewhere now, after some time."""
        now = time.monotonic()
        if self._directory is None or now < self._cleanup_due:
            return
        self._cleanup_due = now + max(self._cleanup_s, 1.0)
        for task_id in self._directory.remove_unused(self._cleanup_s, keeps=frozenset(self._tasks)):
            _log.info("The state of task %s was removed: it runs elsewhere.", task_id)

    @property
    def is_writing(self) -> bool:
        return any(local.state.is_writing for local in self._tasks.values())

    @property
    def is_full(self) -> bool:
        """True if so many bytes wait for a local commit that it should come early."""
        restored = [local for local in self._tasks.values() if local.is_restored]
        waiting = sum(store.unwritten_bytes for local in restored for store in local.stores.values())
        return waiting > self._memory_bytes // _SHARE_UNWRITTEN

    # Closing.

    def close(self, task_ids: Collection[str], *, is_committed: bool, syncs: bool = False) -> None:
        """Releases directories. `is_committed`: Kafka has committed everything that the stores hold."""
        for task_id in task_ids:
            local = self._tasks.pop(task_id, None)
            if local is None:
                continue
            try:
                while local.state.is_writing:
                    self._advance(local)
                if is_committed and local.is_restored:
                    self._begin(local)
                local.state.close(syncs=syncs)
            except Exception:  # noqa: BLE001
                # The next user restores from the last complete local commit.
                _log.exception("The last changes of task %s are not in its state directory.", task_id)
                local.state.abandon()

    def close_all(self, *, is_committed: bool) -> None:
        self.close(list(self._tasks), is_committed=is_committed, syncs=True)

    def _begin(self, local: _LocalTask) -> None:
        changes = {name: store.take_changes() for name, store in local.stores.items()}
        checkpoints = {name: self._checkpoint(store, local.places[name]) for name, store in local.stores.items()}
        local.state.begin_commit(changes, checkpoints)

    def _advance(self, local: _LocalTask) -> None:
        if not local.state.advance():
            return
        for store in local.stores.values():
            store.written()
        stores = [store for task in self._tasks.values() for store in task.stores.values()]
        if sum(store.memory_bytes for store in stores) > self._memory_bytes:
            for store in stores:
                store.shrink()

    def _limit_memory(self) -> None:
        """Interactive queries leave rows in memory, and the keys that have no row."""
        stores = [store for local in self._tasks.values() for store in local.stores.values()]
        if sum(store.memory_bytes - store.unwritten_bytes for store in stores) > self._memory_bytes:
            for store in stores:
                store.shrink()

    def _checkpoint(self, store: Store, place: TopicPartition) -> Checkpoint:
        return Checkpoint(
            topic_id=self._topic_ids.get(place.topic, ""),
            position=self.positions[place],
            observed=store.observed,
            written_ms=_now_ms(),
            kind=store.specification.kind.value,
            sequence=store.sequence,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
