"""The assignment of tasks to workers: fair, sticky, and never a task at two workers at the same time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.client.consumer.assignors import MemberSubscription
from ottla.model.ids import TopicPartition
from ottla.streams import StreamsError
from ottla.streams.runtime.assignment import AssignmentNote, MemberNote, TaskAssignor, plan_standbys, task_places
from ottla.streams.runtime.identity import Instance, WorkerIdentity, is_transactional_id_of
from ottla.streams.runtime.plan import PlannedTask, TaskPlan
from tests.support.streams_workers import plan_of

PROCESSES = ("0b1c2d3e-0000-4000-8000-0123456789ab", "1b1c2d3e-0000-4000-8000-0123456789ab")


def plan(partitions: int, *, topic: str = "in") -> TaskPlan:
    """A sub-topology with two topics and no state, and one with a store."""
    tasks = [
        PlannedTask(group=0, partition=number, names=(), topics=(topic, "also")) for number in range(partitions)
    ] + [
        PlannedTask(group=1, partition=number, names=(), topics=("words",), changelogs={"store": "app-store-changelog"})
        for number in range(partitions)
    ]
    return plan_of(tasks)


class World:
    """A group as its leader sees it: members join, get assignments, and give up revoked partitions."""

    def __init__(self, partitions: int, *, standbys: int = 0) -> None:
        self.plan = plan(partitions)
        self.standbys = standbys
        self.owned: dict[str, list[TopicPartition]] = {}
        self.notes: dict[str, AssignmentNote] = {}
        self.generation = 0

    def assignor(self, member: str, tasks: TaskPlan | None = None) -> TaskAssignor:
        identity = WorkerIdentity(application_id="app", process_id=f"process-{member}", number=0)
        held = [task.task_id for task in self.plan.tasks if task_places(task)[0] in self.owned.get(member, ())]
        return TaskAssignor(tasks or self.plan, identity, standbys=self.standbys, held=lambda: held)

    def rebalance(self, members: list[str]) -> int:
        """One round; returns the number of partitions that members gave up."""
        subscriptions = {
            member: MemberSubscription(
                ("also", "in", "words"),
                tuple(self.owned.get(member, ())),
                self.generation,
                None,
                self.assignor(member).subscription_data([]),
            )
            for member in members
        }
        leader = self.assignor(members[0])
        assignment = leader.assign(subscriptions, {}, {})
        self.notes = {member: AssignmentNote.decode(leader.assignment_data(member)) for member in members}
        before = {place: member for member, places in self.owned.items() for place in places if member in members}
        for member, places in assignment.items():
            for place in places:
                assert before.get(place, member) == member, "two workers would have the task for a moment"
        given_up = sum(
            len([place for place in self.owned.get(member, ()) if place not in assignment[member]])
            for member in members
        )
        self.owned = {member: list(assignment[member]) for member in members}
        self.generation += 1
        return given_up

    def settle(self, members: list[str]) -> int:
        moved = 0
        while True:
            given_up = self.rebalance(members)
            moved += given_up
            if not given_up and all(note.is_complete for note in self.notes.values()):
                return moved

    def tasks(self) -> dict[str, list[str]]:
        return {
            member: [task.task_id for task in self.plan.tasks if set(task_places(task)) <= set(places)]
            for member, places in self.owned.items()
        }


def test_tasks_are_fair_and_whole_and_move_only_if_they_must() -> None:
    chance = random.Random(7)
    for _ in range(60):
        world = World(chance.randint(1, 9))
        members = ["a"]
        world.settle(members)
        for _ in range(6):
            size = chance.randint(1, 5)
            members = sorted(chance.sample("abcdefgh", size))
            stayed = [member for member in members if member in world.owned]
            had = sum(len(world.tasks()[member]) for member in stayed)
            moved = world.settle(members)
            tasks = world.tasks()
            assert sorted(task for task_ids in tasks.values() for task in task_ids) == sorted(
                task.task_id for task in world.plan.tasks
            )
            sizes = [len(task_ids) for task_ids in tasks.values()]
            assert max(sizes) - min(sizes) <= 1
            if len(stayed) == len(members):
                assert moved == 0 or had < len(world.plan.tasks)


def test_a_task_that_moves_waits_until_it_is_given_up() -> None:
    world = World(2)
    world.settle(["a"])
    world.rebalance(["a", "b"])
    assert not world.notes["a"].is_complete
    assert world.tasks()["b"] == []
    assert len(world.tasks()["a"]) == 2
    world.rebalance(["a", "b"])
    assert world.notes["b"].is_complete
    assert len(world.tasks()["b"]) == 2


def test_a_member_that_has_missed_a_generation_notices_it() -> None:
    """A static member that joins too late stays in the group, and joins again under its old id."""
    identity = WorkerIdentity(application_id="app", process_id="late", number=0)
    generations: list[int] = []
    assignor = TaskAssignor(plan(2), identity, generation=lambda: generations[-1])
    note = AssignmentNote().encode()

    def says_it_has_missed(generation: int) -> bool:
        generations.append(generation)
        return MemberNote.decode(assignor.subscription_data([])).has_missed

    # The first two times SyncGroup fails, because another rebalance has begun.
    assert [says_it_has_missed(generation) for generation in (-1, 5, 6)] == [False] * 3
    assignor.on_assignment([], note, 7)
    assert not assignor.has_missed
    assert not says_it_has_missed(7)
    # The eighth generation was formed without it.
    assert says_it_has_missed(9)
    assignor.on_assignment([], note, 10)
    assert assignor.has_missed
    # The assignment was applied. Later the member is removed, and joins as a new member without state.
    assignor.has_missed = False
    assert [says_it_has_missed(generation) for generation in (-1, 20)] == [False] * 2


def test_what_a_late_member_says_it_owns_is_not_believed() -> None:
    """The member joined the last generation but got no assignment; both members would lose a task that both claim."""
    world = World(1)
    world.settle(["b"])
    late = WorkerIdentity(application_id="app", process_id="process-a", number=0)
    generation = iter((1, 3))
    assignor = TaskAssignor(world.plan, late, generation=lambda: next(generation))
    assignor.subscription_data([])
    places = tuple(world.owned["b"])
    subscriptions = {
        "a": MemberSubscription(("also", "in", "words"), places, 3, None, assignor.subscription_data([])),
        "b": MemberSubscription(("also", "in", "words"), places, 3, None, world.assignor("b").subscription_data([])),
    }
    assignment = world.assignor("b").assign(subscriptions, {}, {})
    # No partition goes to the late member before its owner has given it up.
    assert assignment["a"] == []


def test_a_member_with_another_topology_gets_a_sentence_instead_of_tasks() -> None:
    world = World(2)
    subscriptions = {
        "a": MemberSubscription(("in",), (), -1, None, world.assignor("a").subscription_data([])),
        "b": MemberSubscription(("in",), (), -1, None, world.assignor("b", plan(3)).subscription_data([])),
        "c": MemberSubscription(("in",), (), -1, None, b"\xffnot ours"),
    }
    leader = world.assignor("a")
    assignment = leader.assign(subscriptions, {}, {})
    assert {member: bool(places) for member, places in assignment.items()} == {"a": True, "b": False, "c": False}
    refusals = {member: AssignmentNote.decode(leader.assignment_data(member)).refusal for member in subscriptions}
    assert refusals["a"] == ""
    assert "another topology" in refusals["b"]
    assert "another topology" in refusals["c"]


def test_standby_copies_are_in_other_processes_and_stay_where_they_are() -> None:
    world = World(3, standbys=1)
    world.settle(["a", "b", "c"])
    copies = {task: member for member, note in world.notes.items() for task in note.standby}
    active = {task: member for member, task_ids in world.tasks().items() for task in task_ids}
    assert sorted(copies) == ["1_0", "1_1", "1_2"]
    assert all(active[task] != member for task, member in copies.items())
    process = {"a0": "one", "a1": "one", "b0": "two"}
    assert plan_standbys(["1_0"], {"1_0": "a0"}, process, {}, count=2) == {"a0": [], "a1": [], "b0": ["1_0"]}
    held = {"b0": [], "c0": ["1_0"]}
    assert plan_standbys(["1_0"], {"1_0": "a0"}, {**process, "c0": "three"}, held, count=1)["c0"] == ["1_0"]


def test_notes_survive_their_encoding() -> None:
    member = MemberNote(process_id="p", transactional_id="t", fingerprint="f", held=("0_1",))
    assert MemberNote.decode(member.encode()) == member
    note = AssignmentNote(standby=("0_1",), alive=frozenset({"t"}), is_complete=False, refusal="no")
    assert AssignmentNote.decode(note.encode()) == note


def test_an_instance_keeps_its_identity_through_restarts(tmp_path: Path) -> None:
    first = Instance(tmp_path, "app")
    second = Instance(tmp_path, "app")
    assert first.process_id != second.process_id
    known = first.process_id
    first.close()
    again = Instance(tmp_path, "app")
    assert (again.process_id, again.directory) == (known, first.directory)
    worker = WorkerIdentity(application_id="app", process_id=known, number=3)
    assert is_transactional_id_of("app", worker.transactional_id)
    assert not is_transactional_id_of("app", "app-billing-1")
    again.close()
    second.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(StreamsError, match=r"set state\.dir"):
        Instance(tmp_path / "file", "app")
