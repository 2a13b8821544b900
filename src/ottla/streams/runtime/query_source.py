"""Finds the store of a worker that answers an interactive query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.query_door import QueriedStore
from ottla.streams.runtime.task_table import TaskTable
from ottla.streams.state.store import Store

__all__ = ["find_store"]


def find_store(
    name: str, partition: int, global_stores: Mapping[str, Store], tasks: TaskTable, opening: Iterable[PlannedTask]
) -> QueriedStore | str:
    """A global store, a store of an active task, or the reason why there is none."""
    if name in global_stores:
        return QueriedStore(store=global_stores[name], is_active=True, position={})
    for active in tasks:
        if active.planned.partition == partition and name in active.task.stores:
            return QueriedStore(store=active.task.stores[name], is_active=True, position=tasks.positions(active))
    if any(name in task.changelogs and task.partition == partition for task in opening):
        return "it is being restored; ask again"
    return "its task does not run here any more; ask again"
