"""Racks make an assignment little dearer: the work does not grow with partitions and members multiplied."""

from __future__ import annotations

from ottla.coordinator.group.consumer.assignors import AssignmentSpec, MemberSpec, TopicSpec
from ottla.coordinator.group.consumer.assignors.uniform import _fill_racks
from ottla.model.ids import Uuid

TOPIC = Uuid(b"topic-of-a-group")
MEMBERS, PARTITIONS = 60, 600


class CountedRoom(dict[str, int]):
    """The room of each member; counts the looks at it."""

    looks = 0

    def __getitem__(self, member_id: str) -> int:
        self.looks += 1
        return super().__getitem__(member_id)


def test_a_partition_is_not_compared_with_every_member_of_its_racks() -> None:
    racks = frozenset(("r0", "r1", "r2"))
    members = {f"m{number:02}": MemberSpec(frozenset((TOPIC,)), rack_id=f"r{number % 3}") for number in range(MEMBERS)}
    spec = AssignmentSpec(members, {TOPIC: TopicSpec(TOPIC, PARTITIONS, (racks,) * PARTITIONS)})
    held: dict[str, list[tuple[Uuid, int]]] = {member_id: [] for member_id in members}
    room = CountedRoom(dict.fromkeys(members, PARTITIONS // MEMBERS))
    unassigned: dict[tuple[Uuid, int], None] = dict.fromkeys((TOPIC, index) for index in range(PARTITIONS))
    _fill_racks(spec, held, room, unassigned)
    assert not unassigned
    assert {len(partitions) for partitions in held.values()} == {PARTITIONS // MEMBERS}
    assert room.looks < 3 * (PARTITIONS + MEMBERS)
