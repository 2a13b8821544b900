"""Which worker runs which tasks: decided by the leader of the application's group, over the classic protocol.

Every worker is a member. Its subscription says who it is and what state it holds; the assignment says which tasks it
runs, of which tasks it keeps standby copies, and which workers are alive. A task stays with its worker as long as
shares are fair. A task that moves is first given up by its old worker, which joins again, and goes to its new one in
the next round (KIP-429); all other tasks run on meanwhile.
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
    """What a member tells the leader beside its subscription."""

    process_id: str
    transactional_id: str
    # Of the tasks and topics: all instances of an application need the same topology.
    fingerprint: str
    # Tasks whose state the member has on its disk or keeps as standby.
    held: tuple[str, ...] = ()
    # True if all instances are to end.
    asks_shutdown: bool = False
    # application.server, where interactive queries go.
    host: str = ""

    def encode(self) -> bytes:
        return json.dumps(
            {
                "process": self.process_id,
                "transactional.id": self.transactional_id,
                "fingerprint": self.fingerprint,
                "held": self.held,
                "shutdown": self.asks_shutdown,
                "host": self.host,
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
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentNote:
    """What the leader tells a member beside its partitions."""

    # Tasks of which the member keeps a copy of the state.
    standby: tuple[str, ...] = ()
    # The transactional ids of all members.
    alive: frozenset[str] = field(default_factory=frozenset)
    # False if tasks wait until their old worker has given them up.
    is_complete: bool = True
    # Why the member gets no tasks.
    refusal: str = ""
    # True if an instance has asked all of them to end.
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
    """A `GroupAssignor` of the client, one for every worker. `held` tells the tasks whose state is at hand."""

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
    ) -> None:
        self._host = host
        self._asks_shutdown = asks_shutdown
        self._plan = plan
        self._identity = identity
        self._standbys = standbys
        self._held = held
        self._fingerprint = fingerprint(plan)
        self._notes: dict[str, AssignmentNote] = {}
        # What the leader said last.
        self.note = AssignmentNote()
        # True while the group forms a new generation: commits with the old one may be refused.
        self.is_joining = False

    def subscription_data(self, _topics: Sequence[str]) -> bytes:
        self.is_joining = True
        return MemberNote(
            process_id=self._identity.process_id,
            transactional_id=self._identity.transactional_id,
            fingerprint=self._fingerprint,
            held=tuple(self._held()),
            asks_shutdown=self._asks_shutdown,
            host=self._host,
        ).encode()

    def on_assignment(self, _partitions: Sequence[TopicPartition], data: bytes, _generation: int) -> None:
        self.note = AssignmentNote.decode(data)
        self.is_joining = False

    def assignment_data(self, member_id: str) -> bytes:
        """After `assign`: what goes to a member beside its partitions."""
        return self._notes[member_id].encode()

    def assign(
        self, members: Mapping[str, MemberSubscription], _counts: Mapping[str, int], _racks: Racks
    ) -> Assignment:
        notes = {member: MemberNote.decode(one.user_data) for member, one in members.items()}
        able = sorted(member for member, note in notes.items() if note.fingerprint == self._fingerprint)
        tasks = self._plan.tasks
        owner = _owners(tasks, members)
        held = {member: notes[member].held for member in able}
        wanted = plan_tasks_to_members(tasks, able, owner, held)
        # The old worker of a task that moves gives it up first.
        given = {
            member: [task for task in some if owner.get(task.task_id, member) == member]
            for member, some in wanted.items()
        }
        stateful = [task.task_id for task in tasks if task.changelogs]
        process = {member: notes[member].process_id for member in able}
        active = {task.task_id: member for member, some in wanted.items() for task in some}
        standby = plan_standbys(stateful, active, process, held, count=self._standbys)
        hosts = {
            task: (notes[member].host, *(notes[other].host for other, some in standby.items() if task in some))
            for task, member in active.items()
        }
        alive = frozenset(note.transactional_id for note in notes.values())
        is_complete = sum(map(len, given.values())) == len(tasks)
        self._notes = {
            member: AssignmentNote(
                standby=tuple(standby.get(member, ())),
                alive=alive,
                is_complete=is_complete,
                refusal="" if member in given else _REFUSAL,
                is_shutdown=any(note.asks_shutdown for note in notes.values()),
                hosts=hosts,
            )
            for member in members
        }
        return {member: [place for task in given.get(member, ()) for place in task_places(task)] for member in members}


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
            chosen = min(free, key=lambda one: (task not in held.get(one, ()), len(result[one]), one))
            result[chosen].append(task)
            used.add(process[chosen])
    return result


def _owners(tasks: Iterable[PlannedTask], members: Mapping[str, MemberSubscription]) -> dict[str, str]:
    """Task id -> the member that has all of its partitions."""
    claims = {member: (one.owned, one.generation) for member, one in members.items()}
    by_place = previous_owners(claims)
    found = {}
    for task in tasks:
        owners = {by_place.get(place) for place in task_places(task)}
        if len(owners) == 1 and (only := owners.pop()) is not None:
            found[task.task_id] = only
    return found
