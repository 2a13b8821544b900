"""Who does what: connectors and tasks divided among workers, with as little moving as possible.

The leader of the group calls `assign` with what each worker says it owns. Work stays where it is while that is fair;
a worker that has more than its share gives the rest up first, and only in the next round, when it has said that it no
longer owns it, does somebody else get it: nothing runs twice because of a rebalance. Work whose worker is gone waits
for it until `lost_until`, in case it is only restarted, and is then given to whoever has least.

Connectors and tasks are counted apart, so that both are spread.
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
    """What a worker runs, or is to run."""

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()


Assignment = Ownership


@dataclass(frozen=True, slots=True)
class Division:
    """The result of a round."""

    assignments: Mapping[str, Assignment]
    # Whether another round must follow, because somebody has to give work up first.
    unfinished: bool
    # Work that waits for a worker to come back.
    delayed: Ownership


def assign(
    owned: Mapping[str, Ownership],
    *,
    connectors: Collection[str],
    tasks: Collection[TaskId],
    lost: Ownership = Ownership(),  # noqa: B008 - it is frozen
) -> Division:
    """Divides all work. `lost` is what must not be given to anybody yet."""
    connector_shares = _divide({member: has.connectors for member, has in owned.items()}, connectors, lost.connectors)
    task_shares = _divide({member: has.tasks for member, has in owned.items()}, tasks, lost.tasks)
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
    # Of two that both say they own something, the first keeps it; both are told, and the other stops.
    keeps: dict[str, list[Work]] = {member: [] for member in members}
    owner: dict[Work, str] = {}
    claimed: set[Work] = set()
    for member in members:
        for one in sorted(owned[member], key=str):
            if one in owner:
                claimed.add(one)
                continue
            owner[one] = member
            if one in set(wanted):
                keeps[member].append(one)
    for member in members:
        keeps[member] = [one for one in keeps[member] if one not in claimed]
    free = [one for one in wanted if one not in owner and one not in lost]
    # A fair share is the same for all, but for one: those who have most now may have the one more.
    total = len(wanted) - len([one for one in wanted if one in lost and one not in owner])
    least, more = divmod(total, max(len(members), 1))
    by_load = sorted(members, key=lambda member: (-len(keeps[member]), member))
    share = {member: least + (1 if place < more else 0) for place, member in enumerate(by_load)}
    for member in members:
        keeps[member] = keeps[member][: share[member]]
    for one in free:
        member = min(members, key=lambda each: (len(keeps[each]) - share[each], len(keeps[each]), each))
        keeps[member].append(one)
    return {member: frozenset(has) for member, has in keeps.items()}
