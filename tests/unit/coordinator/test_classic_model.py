"""Any interleaving of joins, syncs, leaves, timeouts, refused records, slow followers and restarts of a classic group.

After every step the group agrees with itself (`GroupPath.run` calls `invariants`), a group at rest is what its log
says, and no member is told two different assignments of one generation.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.coordinator.group.state import GroupShard
from ottla.decisions import Timers
from ottla.model.errors import ErrorCode
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.message import Message
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.group_path import OFFSETS_TOPIC, GroupPath, Member, stable_group

STEPS = 120
SEEDS = 12
NONE = ErrorCode.NONE


class Client(Member):
    """Remembers the generation that its SyncGroup request was about: it may join again before the response comes."""

    synced_generation = -1

    def sync(self, *arguments: Any, **fields: Any) -> ErrorCode | None:
        self.synced_generation = self.generation
        return super().sync(*arguments, **fields)

    @property
    def must_begin_again(self) -> bool:
        return self.join_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class Bench:
    def __init__(self, directory: str, seed: int) -> None:
        self.chance = Random(seed)
        self.path = GroupPath(directory)
        self.path.create_topic("t", 3)
        self.path.create_topic(OFFSETS_TOPIC, 1, replicas=(1, 2), isr=(1,))
        self.path.run()
        self.members = [self.member() for _ in range(3)]
        self.members += [self.member(instance_id=name) for name in ("one", "two")]
        self.assignments: dict[tuple[int, str], bytes] = {}
        self.assigned = 0

    def member(self, instance_id: str | None = None) -> Client:
        return Client(
            self.path,
            "g",
            instance_id=instance_id,
            session_timeout_ms=self.chance.choice([6_000, 10_000, 30_000]),
            rebalance_timeout_ms=self.chance.choice([8_000, 20_000]),
            protocols=self.chance.choice([("range", "sticky"), ("sticky", "range")]),
        )

    # Steps.

    def join(self) -> None:
        place = self.chance.randrange(len(self.members))
        if self.chance.random() < 0.1:
            # A process ends, and its successor has no state.
            self.members[place] = self.member(self.members[place].instance_id)
        self.join_as(place)

    def join_as(self, place: int) -> None:
        self.members[place].join_once()
        if self.members[place].must_begin_again:
            self.members[place] = self.member(self.members[place].instance_id)
            self.members[place].join_once()
        if self.members[place].join_code is ErrorCode.MEMBER_ID_REQUIRED and self.chance.random() < 0.9:
            self.members[place].join_once()

    def sync(self) -> None:
        member = self.chance.choice(self.members)
        self.assigned += 1
        assignments = {
            member.member_id: b"%d of %d" % (self.assigned, number) for number, member in enumerate(self.members)
        }
        member.sync(assignments if member.is_leader else None)

    def rebalance(self) -> None:
        """All members do what good clients do, and some of them are a little slow."""
        for place in range(len(self.members)):
            self.join_as(place)
        self.path.advance(self.chance.choice([3_000, 3_000, 20_000]))
        self.check()
        self.assigned += 1
        assignments = {
            member.member_id: b"%d of %d" % (self.assigned, number) for number, member in enumerate(self.members)
        }
        for member in sorted(self.members, key=lambda _: self.chance.random()):
            if self.chance.random() < 0.95:
                member.sync(assignments if member.is_leader else None)

    def heartbeat(self) -> None:
        member = self.chance.choice(self.members)
        self.send(
            HeartbeatRequest(
                group_id="g",
                generation_id=member.generation,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
            ),
            4,
        )

    def leave(self) -> None:
        member = self.chance.choice(self.members)
        identity = MemberIdentity(member_id=member.member_id, group_instance_id=member.instance_id)
        self.send(LeaveGroupRequest(group_id="g", members=[identity]), 5)

    def send(self, request: Message, version: int) -> None:
        """The response waits while followers are slow."""
        self.path.begin(request, version)
        self.path.run()

    def wait(self) -> None:
        self.path.advance(self.chance.choice([1, 500, 3_000, 9_000]))

    def restart(self) -> None:
        self.path.stop()
        self.path.start()

    def replicate(self) -> None:
        """Records are committed at once, have to wait for a follower, or are refused."""
        self.set_replicas(*self.chance.choice([("1", [1]), ("1", [1, 2]), ("2", [1])]))

    def set_replicas(self, minimum: str, in_sync: list[int]) -> None:
        topic_id = self.path.image.topics.by_name[OFFSETS_TOPIC].topic_id
        name = "min.insync.replicas"
        self.path.commit(
            r.ConfigRecord(resource_type=2, resource_name=OFFSETS_TOPIC, name=name, value=minimum),
            r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=in_sync, leader=1),
        )
        self.path.run()

    # What must hold.

    def check(self) -> None:
        for member in self.members:
            if member.sync_code is NONE:
                key = (member.synced_generation, member.member_id)
                assert self.assignments.setdefault(key, member.assignment) == member.assignment
        group = self.path.shard("g").groups.get("g")
        assert group is None or isinstance(group, ClassicGroup)
        stored = self.stored()
        if group is None or stored is None:
            assert group is None, "a group that was never recorded"
            assert stored is None, "a recorded group that was forgotten"
        elif group.phase in (Phase.STABLE, Phase.EMPTY):
            assert facts(group) == facts(stored)

    def stored(self) -> ClassicGroup | None:
        """The group as the next coordinator loads it."""
        shard = self.path.shard("g")
        loaded = GroupShard(0, Timers(self.path.virtual.scheduler), shard.context)
        log = self.path.partition(OFFSETS_TOPIC).log
        region = log.read(0, max_bytes=1 << 24, end_offset=log.log_end_offset).region
        for batch in iterate_batches(b"" if region is None else region.read()):
            for record in iterate_records(batch):
                assert record.key is not None
                value = None if record.value is None else memoryview(record.value)
                loaded.replay(*GROUP_RECORDS.decode(memoryview(record.key), value))
        group = loaded.groups.get("g")
        assert group is None or isinstance(group, ClassicGroup)
        return group


def facts(group: ClassicGroup) -> tuple[object, ...]:
    members = {member.member_id: (member.instance_id, member.assignment) for member in group.members.values()}
    return (group.phase, group.generation, group.leader_id, group.protocol_name, members)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_a_group_at_rest_is_what_its_log_says(log_directory: str, seed: int) -> None:
    bench = Bench(log_directory, seed)
    stable_group(bench.path, *bench.members)
    bench.check()
    steps = [bench.rebalance] * 4 + [bench.join] * 4 + [bench.sync] * 3 + [bench.heartbeat] * 2 + [bench.wait] * 2
    steps += [bench.leave, bench.replicate, bench.restart]
    for _ in range(STEPS):
        bench.chance.choice(steps)()
        bench.check()
    assert len(bench.assignments) >= len(bench.members), "a model without assignments would prove nothing"
    bench.set_replicas("1", [1])
    bench.path.advance(60_000)
    bench.check()
    group = bench.path.shard("g").groups.get("g")
    assert group is None or group.is_empty, "every session is over"
    stable_group(bench.path, *(bench.member() for _ in range(3)))
    bench.check()
    bench.path.stop()
