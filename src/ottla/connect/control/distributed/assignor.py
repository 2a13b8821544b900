"""The assignment of connectors and tasks to workers, with as few moves as possible.

The leader of the group calls `assign` with the work that every worker owns. Work stays with its owner while the shares
are fair. A worker with more than its share first gives up the surplus; another worker gets the surplus in the next
round, when the first worker does not own it any more: a rebalance never runs work twice. Work of a lost worker waits
until `lost_until`, because the worker may only be restarting, and then goes to the workers with the least work.

Connectors and tasks are counted separately, so that both are spread.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ottla.connect.control.states import TaskId

__all__ = ["Assignment", "Division", "Ownership", "assign"]

Work = TypeVar("Work", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Connectors and tasks of a worker."""

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()


Assignment = Ownership


@dataclass(frozen=True, slots=True)
class Division:
    """The result of an assignment round."""

    assignments: Mapping[str, Assignment]
    # True if another round must follow, because a worker has to give up work first.
    unfinished: bool
    # Work that waits for its lost worker.
    delayed: Ownership


def assign(
    owned: Mapping[str, Ownership],
    *,
    connectors: Collection[str],
    tasks: Collection[TaskId],
    lost: Ownership = Ownership(),  # noqa: B008 - it is frozen
) -> Division:
    """Assigns all work except `lost`, which waits for its worker."""
    connector_shares = _divide(
        {member: ownership.connectors for member, ownership in owned.items()}, connectors, lost.connectors
    )
    task_shares = _divide({member: ownership.tasks for member, ownership in owned.items()}, tasks, lost.tasks)
    assignments = {member: Assignment(connector_shares[member], task_shares[member]) for member in owned}
    given_connectors = frozenset[str]().union(*connector_shares.values())
    given_tasks = frozenset[TaskId]().union(*task_shares.values())
    delayed = Ownership(
        (lost.connectors & frozenset(connectors)) - given_connectors, (lost.tasks & frozenset(tasks)) - given_tasks
    )
    all_given = len(given_connectors) + len(given_tasks) + len(delayed.connectors) + len(delayed.tasks)
    return Division(assignments, all_given < len(set(connectors)) + len(set(tasks)), delayed)


def _divide(
    owned: Mapping[str, frozenset[Work]], work: Collection[Work], lost: frozenset[Work]
) -> dict[str, frozenset[Work]]:
    members = sorted(owned)
    wanted = sorted(set(work), key=str)
    # If two workers claim the same work, both must give it up: the next round assigns it.
    keeps: dict[str, list[Work]] = {member: [] for member in members}
    owner: dict[Work, str] = {}
    claimed: set[Work] = set()
    for member in members:
        for unit in sorted(owned[member], key=str):
            if unit in owner:
                claimed.add(unit)
                continue
            owner[unit] = member
            if unit in set(wanted):
                keeps[member].append(unit)
    for member in members:
        keeps[member] = [unit for unit in keeps[member] if unit not in claimed]
    free = [unit for unit in wanted if unit not in owner and unit not in lost]
    # Fair shares differ by at most one. The workers with the most work get the larger shares.
    total = len(wanted) - len([unit for unit in wanted if unit in lost and unit not in owner])
    least, more = divmod(total, max(len(members), 1))
    by_load = sorted(members, key=lambda member: (-len(keeps[member]), member))
    share = {member: least + (1 if place < more else 0) for place, member in enumerate(by_load)}
    for member in members:
        keeps[member] = keeps[member][: share[member]]
    for unit in free:
        member = min(
            members,
            key=lambda candidate: (len(keeps[candidate]) - share[candidate], len(keeps[candidate]), candidate),
        )
        keeps[member].append(unit)
    return {member: frozenset(units) for member, units in keeps.items()}
