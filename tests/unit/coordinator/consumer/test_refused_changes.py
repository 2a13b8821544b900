"""Changes of a consumer group that cannot be written: its members stay, with their sessions."""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from ottla.wire.messages.metadata_records import ConfigRecord, PartitionChangeRecord
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import OFFSETS_TOPIC, GroupPath

SESSIONS_MS = 200_000


def need_replicas(path: GroupPath, count: int) -> None:
    """`min.insync.replicas`, where this broker is the only replica in sync."""
    topic = path.image.topics.by_name[OFFSETS_TOPIC]
    path.commit(
        ConfigRecord(resource_type=2, resource_name=OFFSETS_TOPIC, name="min.insync.replicas", value=str(count)),
        *(
            PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=[1], leader=1)
            for index in topic.partitions
        ),
    )
    path.run()


def two_members(path: GroupPath, instance_id: str | None = None) -> tuple[ConsumerMember, ConsumerMember]:
    first, second = ConsumerMember(path, "g", "a", instance_id=instance_id), ConsumerMember(path, "g", "b")
    for member in (first, second):
        assert member.join() is ErrorCode.NONE
    for _ in range(4):
        first.converge()
        second.converge()
    return first, second


def pass_sessions(path: GroupPath, member: ConsumerMember) -> None:
    """All sessions except that of this member expire."""
    for _ in range(SESSIONS_MS // 5_000):
        path.advance(5_000)
        member.beat()


def test_a_member_whose_leave_is_refused_expires(path: GroupPath) -> None:
    leaving, staying = two_members(path)
    need_replicas(path, 2)
    assert leaving.leave() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    need_replicas(path, 1)
    pass_sessions(path, staying)
    assert set(path.shard("g").groups["g"].members) == {"b"}  # type: ignore[attr-defined]
    staying.converge()
    assert staying.count == 3


def test_a_static_member_whose_return_is_refused_expires(path: GroupPath) -> None:
    away, staying = two_members(path, "i")
    assert away.leave(-2) is ErrorCode.NONE
    need_replicas(path, 2)
    assert ConsumerMember(path, "g", "a2", instance_id="i").join() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    need_replicas(path, 1)
    pass_sessions(path, staying)
    assert set(path.shard("g").groups["g"].members) == {"b"}  # type: ignore[attr-defined]
