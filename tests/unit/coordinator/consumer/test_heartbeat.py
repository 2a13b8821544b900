"""Members of the consumer protocol (KIP-848): joining, converging, leaving, being fenced."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.states import GroupState, MemberState
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.metadata_records import ConfigRecord, PartitionRecord, RemoveTopicRecord
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import GroupPath


def group_of(path: GroupPath, group_id: str = "g") -> ConsumerGroup:
    group = path.shard(group_id).groups[group_id]
    assert isinstance(group, ConsumerGroup)
    group.invariants()
    return group


def topic_id(path: GroupPath, name: str = "t") -> Uuid:
    return path.image.topics.by_name[name].topic_id


def settle(path: GroupPath, *members: ConsumerMember) -> None:
    """All members follow their assignments until no partition moves any more."""
    for _ in range(5):
        for member in members:
            member.converge()
    assert group_of(path, members[0].group_id).state is GroupState.STABLE


def test_a_first_member_gets_everything_at_once(path: GroupPath) -> None:
    member = ConsumerMember(path, "g", "a")
    assert member.join() is ErrorCode.NONE
    assert (member.epoch, member.partitions(topic_id(path))) == (2, {0, 1, 2})
    assert member.last.heartbeat_interval_ms == 5000
    assert group_of(path).state is GroupState.STABLE
    # Nothing has changed: the response has no assignment.
    member.converge()
    assert member.last.assignment is None
    # A heartbeat with all fields gets the whole assignment.
    assert member.beat(full=True) is ErrorCode.NONE
    assert member.last.assignment is not None


def test_partitions_move_only_after_their_owner_has_given_them_up(path: GroupPath) -> None:
    first, second = ConsumerMember(path, "g", "a"), ConsumerMember(path, "g", "b")
    first.join()
    first.converge()
    second.join()
    assert (second.epoch, second.count) == (3, 0)
    assert group_of(path).state is GroupState.RECONCILING
    assert group_of(path).members["b"].state is MemberState.UNRELEASED_PARTITIONS
    # The first member keeps its epoch and still owns the partition, also if a heartbeat omits owned partitions.
    assert first.beat() is ErrorCode.NONE
    assert (first.epoch, first.count) == (2, 2)
    assert group_of(path).members["a"].state is MemberState.UNREVOKED_PARTITIONS
    first.beat(tell_owned=False)
    second.beat()
    assert second.count == 0
    first.converge()
    assert first.epoch == 3
    second.beat()
    assert second.count == 1
    assert not first.partitions(topic_id(path)) & second.partitions(topic_id(path))
    assert group_of(path).state is GroupState.STABLE


def test_the_hash_of_a_deleted_topic_is_forgotten(path: GroupPath) -> None:
    member = ConsumerMember(path, "g", "a")
    member.join()
    assert len(path.groups.context.topic_hashes) == 1
    member.leave()
    # No member asks for the topic any more, as with a group that ends before its topic.
    path.commit(RemoveTopicRecord(topic_id=topic_id(path)))
    assert len(path.groups.context.topic_hashes) == 0


def test_a_member_that_leaves_gives_everything_back(path: GroupPath) -> None:
    first, second = ConsumerMember(path, "g", "a"), ConsumerMember(path, "g", "b")
    first.join()
    second.join()
    settle(path, first, second)
    assert first.leave() is ErrorCode.NONE
    assert first.last.member_epoch == -1
    second.beat()
    assert second.count == 3
    assert second.leave() is ErrorCode.NONE
    assert group_of(path).state is GroupState.EMPTY
    assert second.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_when_its_session_is_over(path: GroupPath) -> None:
    first, second = ConsumerMember(path, "g", "a"), ConsumerMember(path, "g", "b")
    first.join()
    second.join()
    settle(path, first, second)
    path.advance(30_000)
    first.beat()
    path.advance(30_000)
    assert set(group_of(path).members) == {"a"}
    assert second.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    path.advance(45_000)
    assert group_of(path).state is GroupState.EMPTY


def test_a_member_that_does_not_give_up_in_time_is_removed(path: GroupPath) -> None:
    first = ConsumerMember(path, "g", "a", rebalance_timeout_ms=20_000)
    second = ConsumerMember(path, "g", "b")
    first.join()
    first.converge()
    second.join()
    first.beat()
    for _ in range(4):
        path.advance(5000)
        first.beat()
        second.beat()
    assert set(group_of(path).members) == {"b"}
    second.beat()
    assert second.count == 3


def test_an_answer_that_was_lost_is_given_again(path: GroupPath) -> None:
    first, second = ConsumerMember(path, "g", "a"), ConsumerMember(path, "g", "b")
    first.join()
    second.join()
    settle(path, first, second)
    before = first.epoch
    second.leave()
    first.beat()
    assert first.epoch > before
    # The response was lost: the member has its previous epoch and owns no foreign partition.
    first.epoch = before
    assert first.beat() is ErrorCode.NONE
    assert first.epoch > before
    first.epoch = before
    first.owned[topic_id(path)] = {0, 1, 2, 17}
    assert first.beat() is ErrorCode.FENCED_MEMBER_EPOCH
    # An epoch before the previous one is refused.
    first.owned = {}
    first.epoch = before - 1
    assert first.beat() is ErrorCode.FENCED_MEMBER_EPOCH
    first.epoch = 99
    assert first.beat() is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.join() is ErrorCode.NONE


def lose_answer(member: ConsumerMember) -> None:
    """The coordinator changes the member's assignment, and the response is lost."""
    before = member.epoch, member.assigned
    assert member.beat(tell_owned=False) is ErrorCode.NONE
    assert member.epoch == before[0]
    member.epoch, member.assigned = before


def test_a_member_that_missed_what_to_revoke_is_told_again(path: GroupPath) -> None:
    """As librdkafka after a heartbeat timeout: it continues with short heartbeats and the same epoch."""
    first, second = ConsumerMember(path, "g", "a"), ConsumerMember(path, "g", "b")
    first.join()
    first.converge()
    second.join()
    lose_answer(first)
    assert group_of(path).members["a"].state is MemberState.UNREVOKED_PARTITIONS
    # A report of the partitions that the member owns does not confirm the assignment either.
    assert first.beat() is ErrorCode.NONE
    assert first.last.assignment is not None
    first.assigned = first.owned
    assert first.beat(tell_owned=False) is ErrorCode.NONE
    assert first.count == 2
    first.converge()
    assert first.last.assignment is None
    second.beat()
    assert (first.epoch, second.count) == (3, 1)
    assert group_of(path).state is GroupState.STABLE


def test_a_member_that_missed_a_free_partition_is_told_again(path: GroupPath) -> None:
    first, second = ConsumerMember(path, "g", "a"), ConsumerMember(path, "g", "b")
    first.join()
    first.converge()
    second.join()
    first.converge()
    first.converge()
    lose_answer(second)
    assert group_of(path).state is GroupState.STABLE
    assert second.beat(tell_owned=False) is ErrorCode.NONE
    assert second.count == 1
    second.converge()
    assert second.last.assignment is None
    assert second.beat(tell_owned=False) is ErrorCode.NONE
    assert second.last.assignment is None
    # No state is kept for a member that has left.
    first.leave()
    assert second.beat(tell_owned=False) is ErrorCode.NONE
    assert group_of(path).unconfirmed == {"b"}
    second.leave()
    assert not group_of(path).unconfirmed


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": [TopicPartitions(partitions=[0])]}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"server_assignor": "nobody"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_bad_requests_change_nothing(path: GroupPath, fields: dict[str, object], code: ErrorCode) -> None:
    good: dict[str, object] = {
        "group_id": "g",
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    response = path.ask(ConsumerGroupHeartbeatRequest(**{**good, **fields}), 1)  # type: ignore[arg-type]
    assert ErrorCode(response.error_code) is code
    assert response.error_message
    assert not path.shard("g").groups


def test_before_version_1_the_coordinator_gives_out_member_ids(path: GroupPath) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    member_id = path.ask(request, 0).member_id
    assert list(group_of(path).members) == [member_id]


def test_a_full_group_takes_no_more_members(make_consumer: Callable[..., GroupPath]) -> None:
    path = make_consumer(group_consumer_max_size="1")
    assert ConsumerMember(path, "g", "a").join() is ErrorCode.NONE
    assert ConsumerMember(path, "g", "b").join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ConsumerMember(path, "g", "a").join() is ErrorCode.NONE


def test_an_assignment_that_cannot_be_written_changes_nothing(make_consumer: Callable[..., GroupPath]) -> None:
    path = make_consumer()
    path.commit(
        ConfigRecord(resource_type=2, resource_name="__consumer_offsets", name="max.message.bytes", value="400")
    )
    member = ConsumerMember(path, "g", "a" * 100)
    assert member.join() is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "g" not in path.shard("g").groups


# Static members.


def test_a_static_member_returns_to_its_partitions_without_a_rebalance(path: GroupPath) -> None:
    first = ConsumerMember(path, "g", "a", instance_id="i")
    second = ConsumerMember(path, "g", "b")
    first.join()
    second.join()
    settle(path, first, second)
    epoch, had = group_of(path).epoch, first.partitions(topic_id(path))
    assert ConsumerMember(path, "g", "c", instance_id="i").join() is ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.leave(-2) is ErrorCode.NONE
    assert group_of(path).members["a"].member_epoch == -2
    again = ConsumerMember(path, "g", "c", instance_id="i")
    assert again.join() is ErrorCode.NONE
    assert (again.partitions(topic_id(path)), group_of(path).epoch) == (had, epoch)
    assert first.beat() is ErrorCode.FENCED_INSTANCE_ID
    assert first.leave(-2) is ErrorCode.FENCED_INSTANCE_ID
    assert ConsumerMember(path, "g", "x", instance_id="other").leave(-2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_loses_its_place(path: GroupPath) -> None:
    first = ConsumerMember(path, "g", "a", instance_id="i")
    first.join()
    first.leave(-2)
    path.advance(44_000)
    assert group_of(path).members
    path.advance(2000)
    assert not group_of(path).members


# What begins a new epoch.


def test_new_partitions_and_deleted_topics_rebalance_the_group(path: GroupPath) -> None:
    member = ConsumerMember(path, "g", "a", topics=("t", "later"))
    member.join()
    epoch = member.epoch
    path.create_topic("unrelated", 2)
    member.converge()
    assert member.epoch == epoch
    later = path.create_topic("later", 2)
    member.beat()
    assert (member.epoch, member.partitions(later)) == (epoch + 1, {0, 1})
    path.commit(PartitionRecord(partition_id=2, topic_id=later, replicas=[1], isr=[1], leader=1))
    member.beat()
    assert (member.epoch, member.partitions(later)) == (epoch + 2, {0, 1, 2})
    member.converge()
    path.commit(RemoveTopicRecord(topic_id=later))
    member.beat()
    member.converge()
    assert (member.epoch, set(member.assigned)) == (epoch + 3, {topic_id(path)})


def test_what_is_no_longer_subscribed_is_taken_at_once(make_consumer: Callable[..., GroupPath]) -> None:
    path = make_consumer(group_consumer_assignment_interval_ms="1000")
    other = path.create_topic("u", 1)
    member = ConsumerMember(path, "g", "a", topics=("t", "u"))
    member.join()
    member.converge()
    member.topics = ("t",)
    member.beat(full=True)
    # Although the next target is not due yet.
    assert group_of(path).state is GroupState.ASSIGNING
    assert other not in member.assigned
    assert group_of(path).members["a"].state is MemberState.UNREVOKED_PARTITIONS


def test_assignments_are_not_computed_more_often_than_the_interval_allows(
    make_consumer: Callable[..., GroupPath],
) -> None:
    path = make_consumer(group_consumer_assignment_interval_ms="1000")
    first, second = ConsumerMember(path, "g", "a"), ConsumerMember(path, "g", "b")
    first.join()
    assert second.join() is ErrorCode.NONE
    assert (second.epoch, second.count) == (2, 0)
    assert group_of(path).state is GroupState.ASSIGNING
    path.advance(1000)
    second.beat()
    assert second.epoch == 3


def test_the_assignor_most_members_ask_for_is_used(path: GroupPath) -> None:
    member = ConsumerMember(path, "g", "a", assignor="range")
    member.join()
    (described,) = path.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert described.assignor_name == "range"


def test_a_groups_own_settings_hold_within_the_brokers_bounds(path: GroupPath) -> None:
    path.commit(
        ConfigRecord(resource_type=32, resource_name="g", name="consumer.heartbeat.interval.ms", value="7000"),
        ConfigRecord(resource_type=32, resource_name="g", name="consumer.session.timeout.ms", value="999000"),
    )
    member = ConsumerMember(path, "g", "a")
    member.join()
    assert member.last.heartbeat_interval_ms == 7000
    path.advance(59_000)
    assert group_of(path).members
    path.advance(2000)
    assert not group_of(path).members


# Offsets.


def test_offsets_are_committed_at_the_members_epoch(path: GroupPath) -> None:
    first, second = ConsumerMember(path, "g", "a"), ConsumerMember(path, "g", "b")
    first.join()
    first.converge()

    def commit(member: ConsumerMember, epoch: int, index: int = 0, version: int = 9) -> ErrorCode:
        codes = path.commit_offsets(
            "g", {("t", index): 5}, generation=epoch, member_id=member.member_id, version=version
        )
        return codes["t", index]

    assert commit(first, first.epoch) is ErrorCode.NONE
    assert path.fetch_offsets("g") == {("t", 0): 5}
    assert commit(first, first.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(first, first.epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    old = first.epoch
    second.join()
    settle(path, first, second)
    assert first.epoch > old
    (kept, *_) = first.partitions(topic_id(path))
    (lost,) = second.partitions(topic_id(path))
    # The member owns the partition since an earlier epoch: its commit is valid, although its epoch is old.
    assert commit(first, old, kept) is ErrorCode.NONE
    assert commit(first, old, lost) is ErrorCode.STALE_MEMBER_EPOCH
    # The member owns the partition again, but another member owned it in between and may have committed more.
    second.leave()
    settle(path, first)
    assert lost in first.partitions(topic_id(path))
    assert commit(first, old, lost) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(first, old, kept) is ErrorCode.NONE
    assert commit(first, first.epoch, lost) is ErrorCode.NONE


# Recovery.


def test_groups_survive_a_restart(path: GroupPath) -> None:
    first = ConsumerMember(path, "g", "a", instance_id="i", rack_id="r")
    second = ConsumerMember(path, "g", "b", topics=None, regex="t")
    first.join()
    second.join()
    for _ in range(4):
        path.advance(1)
        first.converge()
        second.converge()
    before = group_of(path)
    path.stop()
    path.start()
    after = group_of(path)
    assert after is not before
    for name in ("epoch", "assignment_epoch", "metadata_hash", "members", "targets", "static_members"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.resolved_regexes == before.resolved_regexes
    epoch = first.epoch
    first.converge()
    second.converge()
    assert first.epoch == epoch
    # Sessions are watched again.
    path.advance(46_000)
    assert not group_of(path).members


@pytest.mark.parametrize("seed", range(12))
def test_no_partition_is_ever_owned_twice(make_consumer: Callable[..., GroupPath], seed: int) -> None:
    """Members come, go, converge, stay silent and change their minds at random; then the group settles."""
    random = Random(seed)
    path = make_consumer(group_consumer_assignment_interval_ms=random.choice(["0", "1000"]))
    path.create_topic("u", 5)
    members: dict[str, ConsumerMember] = {}
    for number in range(150):
        action = random.random()
        if action < 0.12 and len(members) < 6:
            member = ConsumerMember(path, "g", f"m{number}", topics=random.choice([("t",), ("u",), ("t", "u")]))
            assert member.join() is ErrorCode.NONE
            members[member.member_id] = member
        elif action < 0.17 and members:
            members.pop(random.choice(sorted(members))).leave()
        elif action < 0.22:
            path.advance(random.choice([500, 5000]))
        elif members:
            member = members[random.choice(sorted(members))]
            if random.random() < 0.1:
                member.topics = random.choice([("t",), ("u",), ("t", "u")])
                code = member.beat(full=True)
            elif random.random() < 0.5:
                code = member.beat()
            else:
                member.owned = {owned_topic: set(partitions) for owned_topic, partitions in member.assigned.items()}
                code = member.beat()
            if code is not ErrorCode.NONE:
                assert code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
                assert member.join() is ErrorCode.NONE
        if "g" in path.shard("g").groups:
            group_of(path)
            taken: set[tuple[Uuid, int]] = set()
            known = group_of(path).members
            for member in members.values():
                # A fenced member gives up its partitions before it joins again.
                if member.member_id in known:
                    held = {(owned_topic, index) for owned_topic, indexes in member.owned.items() for index in indexes}
                    assert not held & taken
                    taken |= held
    if members:
        path.advance(1000)
        alive = [member for member in members.values() if member.member_id in group_of(path).members]
        for _ in range(6):
            for member in alive:
                member.converge()
        if len(alive) == len(group_of(path).members):
            assert group_of(path).state is GroupState.STABLE
