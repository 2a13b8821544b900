"""How connectors and tasks are divided among workers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.control.distributed.assignor import Division, Ownership, assign
from ottla.connect.control.states import TaskId

CONNECTORS = [f"c{number}" for number in range(4)]
TASKS = [TaskId("c0", number) for number in range(10)]


def rounds(
    owned: dict[str, Ownership], connectors: list[str], tasks: list[TaskId]
) -> tuple[dict[str, Ownership], list[Division]]:
    """Rounds until nothing moves: what each worker has in the end, and what was decided on the way."""
    history = []
    for _ in range(10):
        division = assign(owned, connectors=connectors, tasks=tasks)
        history.append(division)
        if all(division.assignments[member] == owned[member] for member in owned):
            return owned, history
        owned = dict(division.assignments)
    raise AssertionError(f"it never settles: {history}")


def test_one_worker_has_everything() -> None:
    division = assign({"a": Ownership()}, connectors=CONNECTORS, tasks=TASKS)
    assert division.assignments["a"] == Ownership(frozenset(CONNECTORS), frozenset(TASKS))
    assert not division.unfinished


def test_a_worker_that_joins_gets_its_share_when_the_other_has_given_it_up() -> None:
    first = Ownership(frozenset(CONNECTORS), frozenset(TASKS))
    division = assign({"a": first, "b": Ownership()}, connectors=CONNECTORS, tasks=TASKS)
    assert division.assignments["b"] == Ownership()
    assert division.unfinished
    assert len(division.assignments["a"].tasks) == 5
    settled, history = rounds({"a": first, "b": Ownership()}, CONNECTORS, TASKS)
    assert [len(settled[letter].tasks) for letter in "ab"] == [5, 5]
    assert [len(settled[letter].connectors) for letter in "ab"] == [2, 2]
    assert settled["a"].tasks < first.tasks
    assert len(history) == 3


def test_what_a_dead_worker_had_goes_to_those_who_have_least() -> None:
    owned = {
        "a": Ownership(frozenset(["c0"]), frozenset(TASKS[:3])),
        "b": Ownership(frozenset(["c1"]), frozenset(TASKS[3:6])),
    }
    division = assign(owned, connectors=CONNECTORS[:3], tasks=TASKS[:9])
    assert all(owned[letter].tasks <= division.assignments[letter].tasks for letter in "ab")
    assert sorted(len(share.tasks) for share in division.assignments.values()) == [4, 5]
    assert not division.unfinished


def test_lost_work_waits_as_long_as_it_is_told_to() -> None:
    lost = Ownership(frozenset(), frozenset(TASKS[5:]))
    owned = {"a": Ownership(frozenset(), frozenset(TASKS[:5]))}
    division = assign(owned, connectors=[], tasks=TASKS, lost=lost)
    assert division.assignments["a"].tasks == frozenset(TASKS[:5])
    assert division.delayed == lost
    assert not division.unfinished
    assert assign(owned, connectors=[], tasks=TASKS).assignments["a"].tasks == frozenset(TASKS)


def test_lost_work_of_a_worker_that_came_back_with_it_stays_there() -> None:
    lost = Ownership(frozenset(), frozenset(TASKS[5:]))
    owned = {
        "a": Ownership(frozenset(), frozenset(TASKS[:5])),
        "b": Ownership(frozenset(), frozenset(TASKS[5:])),
    }
    division = assign(owned, connectors=[], tasks=TASKS, lost=lost)
    assert division.assignments["b"].tasks == frozenset(TASKS[5:])


def test_what_two_say_they_own_is_first_taken_from_both() -> None:
    owned = {"a": Ownership(frozenset(), frozenset(TASKS[:1])), "b": Ownership(frozenset(), frozenset(TASKS[:1]))}
    division = assign(owned, connectors=[], tasks=TASKS[:1])
    assert all(not share.tasks for share in division.assignments.values())
    assert division.unfinished


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 3), min_size=10, max_size=10),
    st.integers(0, 10),
)
def test_it_settles_fairly_and_never_gives_one_thing_to_two(members: list[str], owners: list[int], count: int) -> None:
    owned = {
        member: Ownership(
            frozenset(), frozenset(task for task, owner in zip(TASKS, owners, strict=True) if owner == place)
        )
        for place, member in enumerate(members)
    }
    settled, history = rounds(owned, [], TASKS[:count])
    for before, division in zip([owned, *(event.assignments for event in history)], history, strict=False):
        for member, share in division.assignments.items():
            others = [task for other, ownership in before.items() if other != member for task in ownership.tasks]
            assert not share.tasks & set(others), "it was given away before its owner gave it up"
    sizes = [len(share.tasks) for share in settled.values()]
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1
