"""Assigns tasks to workers: the leader of the application's group decides, over the classic protocol.

Every worker is a member. Its subscription has its identity and the tasks whose state it holds; its assignment has the
tasks to run, the tasks to keep standby copies of, and the workers that are alive. A task stays with its worker as long
as shares are fair. A task that moves is first released by its old worker, which joins again, and goes to its new worker
in the next round (KIP-429); all other tasks keep running.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.client.consumer.assignors import Assignment, MemberSubscription, Racks
from ottla.client.consumer.sticky import assign_sticky, previous_owners
from ottla.model.ids import TopicPartition
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.plan import PlannedTask, TaskPlan

__all__ = ["AssignmentNote", "MemberNote", "TaskAssignor", "plan_tasks_to_members", "plan_standbys", "task_places"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberNote:
    """The user data of a member's subscription, for the leader."""

    process_id: str
    transactional_id: str
    # The hash of the tasks and topics: all instances of an application need the same topology.
    fingerprint: str
    # Tasks whose state the member has on its disk or keeps as standby.
    held: tuple[str, ...] = ()
    # True if the member requests that all instances shut down.
    asks_shutdown: bool = False
    # application.server, where interactive queries go.
    host: str = ""
    # True if the group had a generation without the member: its partitions may have gone to other members.
    has_missed: bool = False

    def encode(self) -> bytes:
        return json.dumps(
            {
                "process": self.process_id,
                "transactional.id": self.transactional_id,
                "fingerprint": self.fingerprint,
                "held": self.held,
                "shutdown": self.asks_shutdown,
                "host": self.host,
                "missed": self.has_missed,
            }
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> MemberNote:
        content = _content(data)
        return cls(
            process_id=str(content.get("process", "")),
            transactional_id=str(content.get("transactional.id", "")),
            fingerprint=str(content.get("fingerprint", "")),
            held=tuple(content.get("held", ())),
            asks_shutdown=bool(content.get("shutdown", False)),
            host=str(content.get("host", "")),
            has_missed=bool(content.get("missed", False)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentNote:
    """The user data of a member's assignment, beside its partitions."""

    # Tasks of which the member keeps a copy of the state.
    standby: tuple[str, ...] = ()
    # The transactional ids of all members.
    alive: frozenset[str] = field(default_factory=frozenset)
    # False if tasks wait until their old worker has released them.
    is_complete: bool = True
    # The reason if the member gets no tasks.
    refusal: str = ""
    # True if an instance has requested that all instances shut down.
    is_shutdown: bool = False
    # Task -> the hosts of its active worker and of its standby copies, in this order.
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps(
            {
                "standby": self.standby,
                "alive": sorted(self.alive),
                "complete": self.is_complete,
                "refusal": self.refusal,
                "shutdown": self.is_shutdown,
                "hosts": dict(self.hosts),
            }
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> AssignmentNote:
        content = _content(data)
        return cls(
            standby=tuple(content.get("standby", ())),
            alive=frozenset(content.get("alive", ())),
            is_complete=bool(content.get("complete", True)),
            refusal=str(content.get("refusal", "")),
            is_shutdown=bool(content.get("shutdown", False)),
            hosts={task: tuple(hosts) for task, hosts in content.get("hosts", {}).items()},
        )


def _content(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


class TaskAssignor:
    """The `GroupAssignor` of a worker. `held` returns the tasks whose state the worker has.

    `generation` returns that of the member. A static member that joins too late stays in its group, and may join the
    next generation under its old id: its earlier work is not refused, although its tasks may have run elsewhere.
    """

    name = "ottla-streams"
    is_cooperative = True

    def __init__(
        self,
        plan: TaskPlan,
        identity: WorkerIdentity,
        *,
        standbys: int = 0,
        held: Callable[[], Iterable[str]] = tuple,
        asks_shutdown: bool = False,
        host: str = "",
        generation: Callable[[], int] = lambda: -1,
    ) -> None:
        self._host = host
        self._generation_now = generation
        # The last generation of the member, -1 before the first.
        self._generation = -1
        self._asks_shutdown = asks_shutdown
        self._plan = plan
        self._identity = identity
        self._standbys = standbys
        self._held = held
        self._fingerprint = fingerprint(plan)
        self._notes: dict[str, AssignmentNote] = {}
        # The note of the last assignment.
        self.note = AssignmentNote()
        # True while the group forms a new generation: commits with the old one may be refused.
        self.is_joining = False
        # True if the member has missed a generation, and has not applied an assignment since.
        self.has_missed = False

    def subscription_data(self, _topics: Sequence[str]) -> bytes:
        self.is_joining = True
        self.notice(self._generation_now())
        return MemberNote(
            process_id=self._identity.process_id,
            transactional_id=self._identity.transactional_id,
            fingerprint=self._fingerprint,
            held=tuple(self._held()),
            asks_shutdown=self._asks_shutdown,
            host=self._host,
            has_missed=self.has_missed,
        ).encode()

    def notice(self, generation: int) -> None:
        """Takes the member's current generation. A gap after the last generation is a missed rebalance."""
        self.has_missed |= 0 <= self._generation < generation - 1
        self._generation = generation

    def on_assignment(self, _partitions: Sequence[TopicPartition], data: bytes, generation: int) -> None:
        self.notice(generation)
        self.note = AssignmentNote.decode(data)
        self.is_joining = False

    def assignment_data(self, member_id: str) -> bytes:
        """The encoded note for a member, after `assign`."""
        return self._notes[member_id].encode()

    def assign(
        self, members: Mapping[str, MemberSubscription], _counts: Mapping[str, int], _racks: Racks
    ) -> Assignment:
        notes = {member: MemberNote.decode(subscription.user_data) for member, subscription in members.items()}
        able = sorted(member for member, note in notes.items() if note.fingerprint == self._fingerprint)
        tasks = self._plan.tasks
        owner = _owners(
            tasks, {member: subscription for member, subscription in members.items() if not notes[member].has_missed}
        )
        held = {member: notes[member].held for member in able}
        target = plan_tasks_to_members(tasks, able, owner, held)
        # The old worker of a task that moves releases it first.
        assigned = {
            member: [task for task in member_tasks if owner.get(task.task_id, member) == member]
            for member, member_tasks in target.items()
        }
        stateful = [task.task_id for task in tasks if task.changelogs]
        process = {member: notes[member].process_id for member in able}
        active = {task.task_id: member for member, member_tasks in target.items() for task in member_tasks}
        standby = plan_standbys(stateful, active, process, held, count=self._standbys)
        hosts = {
            task: (
                notes[member].host,
                *(notes[other].host for other, standby_tasks in standby.items() if task in standby_tasks),
            )
            for task, member in active.items()
        }
        alive = frozenset(note.transactional_id for note in notes.values())
        is_complete = sum(map(len, assigned.values())) == len(tasks)
        self._notes = {
            member: AssignmentNote(
                standby=tuple(standby.get(member, ())),
                alive=alive,
                is_complete=is_complete,
                refusal="" if member in assigned else _REFUSAL,
                is_shutdown=any(note.asks_shutdown for note in notes.values()),
                hosts=hosts,
            )
            for member in members
        }
        return {
            member: [place for task in assigned.get(member, ()) for place in task_places(task)] for member in members
        }


_REFUSAL = (
    "Other instances of the application run another topology, or found other topics when they started. Stop all "
    "instances and start them with the same topology, or give the new topology another application.id."
)


def task_places(task: PlannedTask) -> list[TopicPartition]:
    """The input partitions of a task."""
    return [TopicPartition(topic, task.partition) for topic in task.topics]


def fingerprint(plan: TaskPlan) -> str:
    text = repr([(task.task_id, task.topics, sorted(task.changelogs.items())) for task in plan.tasks])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plan_tasks_to_members(
    tasks: Sequence[PlannedTask],
    members: Sequence[str],
    owner: Mapping[str, str],
    held: Mapping[str, Sequence[str]],
) -> dict[str, list[PlannedTask]]:
    """Fair shares. A task stays with its owner; without one it goes to a member that has its state."""
    if not members:
        return {}
    by_unit = {TopicPartition(str(task.group), task.partition): task for task in tasks}
    holder = {task: member for member in reversed(members) for task in held.get(member, ())}
    previous: dict[TopicPartition, str] = {}
    for unit, task in by_unit.items():
        chosen = owner.get(task.task_id) or holder.get(task.task_id)
        if chosen is not None:
            previous[unit] = chosen
    groups = sorted({unit.topic for unit in by_unit})
    shares = assign_sticky(list(by_unit), previous, dict.fromkeys(members, groups), dict.fromkeys(members), {})
    return {member: [by_unit[unit] for unit in sorted(units)] for member, units in shares.items()}


def plan_standbys(
    tasks: Sequence[str],
    active: Mapping[str, str],
    process: Mapping[str, str],
    held: Mapping[str, Sequence[str]],
    *,
    count: int,
) -> dict[str, list[str]]:
    """Up to `count` copies of every stateful task, each in another process than its active task and other copies."""
    result: dict[str, list[str]] = {member: [] for member in process}
    for task in tasks:
        used = {process[active[task]]} if task in active else set()
        for _ in range(count):
            free = [member for member in process if process[member] not in used]
            if not free:
                break
            chosen = min(free, key=lambda member: (task not in held.get(member, ()), len(result[member]), member))
            result[chosen].append(task)
            used.add(process[chosen])
    return result


def _owners(tasks: Iterable[PlannedTask], members: Mapping[str, MemberSubscription]) -> dict[str, str]:
    """Task id -> the member that has all of its partitions."""
    claims = {member: (subscription.owned, subscription.generation) for member, subscription in members.items()}
    by_place = previous_owners(claims)
    owner_by_task = {}
    for task in tasks:
        owners = {by_place.get(place) for place in task_places(task)}
        if len(owners) == 1 and (only := owners.pop()) is not None:
            owner_by_task[task.task_id] = only
    return owner_by_task
