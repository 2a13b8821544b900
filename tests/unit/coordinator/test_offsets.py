"""Committed offsets: who may commit, what is read, and how offsets go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.group.offsets import removal
from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.records.build import build_batch
from ottla.records.control import build_end_transaction_marker
from ottla.records.record import Record
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.group_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.support.group_path import GroupPath, Member, stable_group

NONE = ErrorCode.NONE
MINUTE_MS = 60_000
T0 = ("t", 0)


def delete(path: GroupPath, group_id: str, topic: str, *indexes: int) -> tuple[ErrorCode, list[ErrorCode]]:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    requested = OffsetDeleteRequestTopic(name=topic, partitions=partitions)
    response = path.ask(OffsetDeleteRequest(group_id=group_id, topics=[requested]), 0)
    codes = [
        ErrorCode(partition.error_code) for topic_response in response.topics for partition in topic_response.partitions
    ]
    return ErrorCode(response.error_code), codes


# Committing.


def test_any_client_may_commit_for_a_group_without_members(path: GroupPath) -> None:
    assert path.commit_offsets("g", {T0: 5, ("t", 2): 7}, metadata="here") == {T0: NONE, ("t", 2): NONE}
    assert path.fetch_offsets("g", {"t": [0, 1, 2]}) == {T0: 5, ("t", 1): -1, ("t", 2): 7}
    assert path.commit_offsets("g", {T0: 3}) == {T0: NONE}
    assert path.fetch_offsets("g") == {T0: 3, ("t", 2): 7}


def test_only_members_commit_for_a_group_that_has_some(path: GroupPath) -> None:
    member = Member(path, "g")
    stable_group(path, member)
    assert path.commit_offsets("g", {T0: 5}) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert member.commit({T0: 5}) is NONE
    assert path.fetch_offsets("g") == {T0: 5}


def test_a_generation_without_a_group_is_an_old_one(path: GroupPath) -> None:
    codes = {
        version: path.commit_offsets("g", {T0: 1}, generation=3, member_id="m", version=version)[T0]
        for version in (2, 8, 9)
    }
    old, new = ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_ID_NOT_FOUND
    assert codes == {2: old, 8: old, 9: new}


def test_metadata_has_a_bound_and_the_rest_of_the_request_goes_through(make: Callable[..., GroupPath]) -> None:
    path = make(offset_metadata_max_bytes="10")
    assert path.commit_offsets("g", {T0: 1}, metadata="x" * 10) == {T0: NONE}
    assert path.commit_offsets("g", {T0: 2}, metadata="x" * 11) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert path.fetch_offsets("g") == {T0: 1}


def test_topics_and_partitions_have_to_exist(path: GroupPath) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = path.commit_offsets("g", {("gone", 0): 1, ("t", 9): 1, T0: 1})
    assert codes == {("gone", 0): unknown, ("t", 9): unknown, T0: NONE}
    assert path.commit_offsets("g", {("gone", 0): 1}) == {("gone", 0): unknown}


def test_topics_by_id(path: GroupPath) -> None:
    topic_id = path.image.topics.by_name["t"].topic_id

    def request(identity: Uuid) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=4, committed_metadata="m")
        return OffsetCommitRequest(
            group_id="g", topics=[OffsetCommitRequestTopic(topic_id=identity, partitions=[partition])]
        )

    (answer,) = path.ask(request(topic_id), 10).topics
    assert (answer.topic_id, answer.partitions[0].error_code) == (topic_id, NONE)
    stranger = Uuid(b"\x01" * 16)
    (refused,) = path.ask(request(stranger), 10).topics
    assert (refused.topic_id, refused.partitions[0].error_code) == (stranger, ErrorCode.UNKNOWN_TOPIC_ID)
    requested_topics = [
        OffsetFetchRequestTopics(topic_id=identity, partition_indexes=[0]) for identity in (topic_id, stranger)
    ]
    for topics, topic_count in ((requested_topics, 2), (None, 1)):
        group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        (fetched,) = path.ask(OffsetFetchRequest(groups=[group]), 10).groups
        by_id = {topic.topic_id.bytes: topic.partitions[0] for topic in fetched.topics}
        assert len(by_id) == topic_count
        known = by_id[topic_id.bytes]
        assert (known.committed_offset, known.metadata, known.committed_leader_epoch) == (4, "m", -1)
        if topics is not None:
            assert by_id[stranger.bytes].error_code == ErrorCode.UNKNOWN_TOPIC_ID


# Fetching.


def test_several_groups_at_once_each_for_itself(path: GroupPath) -> None:
    path.commit_offsets("a", {T0: 1})
    path.commit_offsets("b", {T0: 2})
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("b", "none", "a")]
    answers = path.ask(OffsetFetchRequest(groups=groups), 8).groups
    assert [(answer.group_id, answer.error_code) for answer in answers] == [("b", 0), ("none", 0), ("a", 0)]
    offsets = [
        [partition.committed_offset for topic in answer.topics for partition in topic.partitions] for answer in answers
    ]
    assert offsets == [[2], [], [1]]


def test_old_versions_ask_for_one_group(path: GroupPath) -> None:
    path.commit_offsets("a", {T0: 1})
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    for version in (1, 2, 7):
        response = path.ask(OffsetFetchRequest(group_id="a", topics=topics), version)
        assert [partition.committed_offset for partition in response.topics[0].partitions] == [1, -1]
    response = path.ask(OffsetFetchRequest(group_id="a", topics=None), 2)
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("t", 1)]


def test_offsets_of_an_open_transaction_are_unstable_until_it_ends(path: GroupPath) -> None:
    path.commit_offsets("g", {T0: 1})
    shard = path.shard("g")
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    for producer_id, offset in ((7, 10), (8, 20)):
        shard.replay(key, OffsetCommitValue(offset=offset, metadata=""), producer_id)
    assert path.fetch_offsets("g", {"t": [0]}) == {T0: 1}
    unstable = -1000 - ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert path.fetch_offsets("g", {"t": [0]}, require_stable=True) == {T0: unstable}
    assert path.fetch_offsets("g", require_stable=True) == {T0: unstable}
    shard.replay_transaction_end(7, is_commit=True)
    shard.replay_transaction_end(8, is_commit=False)
    assert path.fetch_offsets("g", {"t": [0]}, require_stable=True) == {T0: 10}


def test_a_deletion_comes_after_what_is_pending(path: GroupPath) -> None:
    path.commit_offsets("g", {("t", 1): 1})
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    path.shard("g").replay(key, OffsetCommitValue(offset=10, metadata=""), 7)
    assert delete(path, "g", "t", 0) == (NONE, [NONE])
    path.shard("g").replay_transaction_end(7, is_commit=True)
    assert path.fetch_offsets("g") == {("t", 1): 1}


def test_transactions_are_read_back_from_the_log(path: GroupPath) -> None:
    path.commit_offsets("g", {T0: 1})
    partition = path.partition("__consumer_offsets", path.groups.runtime.partition_of("g"))
    now_ms = path.virtual.clock.ms
    for producer_id, index in ((7, 0), (8, 1), (9, 2)):
        record = Record(
            key=GROUP_RECORDS.encode_key(OffsetCommitKey(group="g", topic="t", partition=index)),
            value=GROUP_RECORDS.encode_value(OffsetCommitValue(offset=50, metadata="")),
            timestamp=now_ms,
        )
        batch = build_batch([record], is_transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=0)
        partition.append_built(batch, now_ms=now_ms)
    for producer_id, is_commit in ((7, True), (8, False)):
        marker = build_end_transaction_marker(
            is_commit=is_commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp_ms=now_ms
        )
        partition.append_built(marker, now_ms=now_ms)
    path.stop()
    path.start()
    assert path.fetch_offsets("g", {"t": [0, 1, 2]}) == {T0: 50, ("t", 1): -1, ("t", 2): -1}
    unstable = -1000 - ErrorCode.UNSTABLE_OFFSET_COMMIT
    fetched = path.fetch_offsets("g", {"t": [0, 1, 2]}, require_stable=True)
    assert fetched == {T0: 50, ("t", 1): -1, ("t", 2): unstable}


def test_an_offset_of_a_namesake_is_none(path: GroupPath) -> None:
    path.commit_offsets("g", {T0: 1})
    topic_id = path.image.topics.by_name["t"].topic_id
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    for written, expected in ((topic_id, 9), (Uuid(b"\x05" * 16), -1), (Uuid.ZERO, 9)):
        path.shard("g").replay(key, OffsetCommitValue(offset=9, metadata="", topic_id=written))
        requested = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id="g", topics=[requested])
        (answer,) = path.ask(OffsetFetchRequest(groups=[group]), 10).groups
        assert answer.topics[0].partitions[0].committed_offset == expected


# Going.


def test_offsets_are_deleted_by_hand_unless_members_read_the_topic(path: GroupPath) -> None:
    path.create_topic("u", 1)
    member = Member(path, "g", topics=("t",))
    stable_group(path, member)
    member.commit({T0: 1, ("u", 0): 2})
    assert delete(path, "g", "t", 0) == (NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert delete(path, "g", "u", 0, 5) == (NONE, [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert path.fetch_offsets("g") == {T0: 1}
    member.leave()
    assert delete(path, "g", "t", 0) == (NONE, [NONE])
    assert path.fetch_offsets("g") == {}


def test_nothing_is_deleted_where_there_is_no_group_or_one_that_is_no_consumer(path: GroupPath) -> None:
    assert delete(path, "none", "t", 0) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert delete(path, "", "t", 0) == (ErrorCode.INVALID_GROUP_ID, [])
    stable_group(path, Member(path, "g", protocol_type="connect"))
    assert delete(path, "g", "t", 0) == (ErrorCode.NON_EMPTY_GROUP, [])


def test_offsets_go_with_their_topic(path: GroupPath) -> None:
    topic_id = path.create_topic("u", 1)
    path.commit_offsets("g", {T0: 1, ("u", 0): 2})
    path.commit(r.RemoveTopicRecord(topic_id=topic_id))
    path.run()
    assert path.fetch_offsets("g") == {T0: 1}
    path.stop()
    path.start()
    assert path.fetch_offsets("g") == {T0: 1}


def test_offsets_expire_some_time_after_the_group_is_empty(make: Callable[..., GroupPath]) -> None:
    path = make(offsets_retention_minutes="60", offsets_retention_check_interval_ms="60000")
    member = Member(path, "g", session_timeout_ms=1_800_000)
    stable_group(path, member)
    member.commit({T0: 1})
    for _ in range(6):
        path.advance(15 * MINUTE_MS)
        assert member.heartbeat() is NONE
    assert path.fetch_offsets("g") == {T0: 1}
    member.leave()
    path.advance(60 * MINUTE_MS - 1)
    assert path.fetch_offsets("g") == {T0: 1}
    path.advance(MINUTE_MS)
    assert path.fetch_offsets("g") == {}
    assert "g" not in path.shard("g").groups


def test_offsets_of_unsubscribed_topics_expire_one_by_one(make: Callable[..., GroupPath]) -> None:
    path = make(offsets_retention_minutes="60", offsets_retention_check_interval_ms="60000")
    path.create_topic("u", 1)
    member = Member(path, "g", session_timeout_ms=1_800_000)
    stable_group(path, member)
    member.commit({T0: 1, ("u", 0): 2})
    for _ in range(5):
        path.advance(15 * MINUTE_MS)
        member.heartbeat()
    assert path.fetch_offsets("g") == {T0: 1}


def test_a_group_with_members_stays_when_its_last_offset_expires(make: Callable[..., GroupPath]) -> None:
    path = make(offsets_retention_minutes="60", offsets_retention_check_interval_ms="60000")
    path.create_topic("u", 1)
    member = Member(path, "g", session_timeout_ms=1_800_000)
    stable_group(path, member)
    member.commit({("u", 0): 2})
    for _ in range(5):
        path.advance(15 * MINUTE_MS)
        assert member.heartbeat() is NONE
    assert path.fetch_offsets("g") == {}
    assert member.heartbeat() is NONE


def test_offsets_of_standalone_consumers_expire_after_their_commit(make: Callable[..., GroupPath]) -> None:
    path = make(offsets_retention_minutes="2", offsets_retention_check_interval_ms="1000")
    path.commit_offsets("g", {T0: 1})
    path.advance(60_000)
    path.commit_offsets("g", {("t", 1): 2})
    path.advance(60_000)
    assert path.fetch_offsets("g") == {("t", 1): 2}
    path.advance(60_000)
    assert path.fetch_offsets("g") == {}


def test_a_client_of_old_could_choose_the_retention(make: Callable[..., GroupPath]) -> None:
    path = make(offsets_retention_check_interval_ms="1000")
    path.commit_offsets("g", {T0: 1}, version=4, retention_time_ms=5_000)
    path.advance(4_999)
    assert path.fetch_offsets("g") == {T0: 1}
    path.advance(1_001)
    assert path.fetch_offsets("g") == {}


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 2, 2**62])
def test_a_retention_beyond_the_range_of_timestamps_never_ends(
    make: Callable[..., GroupPath], retention_ms: int
) -> None:
    path = make(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    path.commit_offsets("g", {T0: 1}, version=3, retention_time_ms=retention_ms)
    path.advance(3_600_000)
    assert path.fetch_offsets("g") == {T0: 1}
    path.crash()
    path.start()
    assert path.fetch_offsets("g") == {T0: 1}


@pytest.mark.parametrize("retention_ms", [-2, -(2**63)])
def test_a_negative_retention_is_over_at_once(make: Callable[..., GroupPath], retention_ms: int) -> None:
    path = make(offsets_retention_check_interval_ms="1000")
    path.commit_offsets("g", {T0: 1}, version=3, retention_time_ms=retention_ms)
    path.advance(1_001)
    assert path.fetch_offsets("g") == {}


@pytest.mark.parametrize("ends", ["stop", "crash"])
def test_offsets_survive_a_restart(path: GroupPath, ends: str) -> None:
    for number in range(50):
        path.commit_offsets(f"group-{number % 7}", {("t", number % 3): number}, metadata=f"m{number}")
    before = {name: path.fetch_offsets(name) for name in (f"group-{number}" for number in range(7))}
    getattr(path, ends)()
    path.start()
    assert {name: path.fetch_offsets(name) for name in before} == before


def test_offsets_of_many_partitions_go_with_their_topic(log_directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: what does not fit into one batch goes with the next."""
    monkeypatch.setattr(removal, "TOMBSTONES_PER_DECISION_MAX", 2)
    path = GroupPath(log_directory)
    path.create_topic("t", 5)
    path.create_topic("u", 1)
    path.create_offsets_topic(1, max_message_bytes="180")
    for index in range(5):
        assert path.commit_offsets("g", {("t", index): 1}) == {("t", index): NONE}
    path.commit_offsets("g", {("u", 0): 1})
    path.commit(r.RemoveTopicRecord(topic_id=path.image.topics.by_name["t"].topic_id))
    path.run()
    assert path.fetch_offsets("g") == {("u", 0): 1}
    path.stop()


def test_offsets_of_the_oldest_format_are_their_groups_too(path: GroupPath) -> None:
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=5, metadata="m", commit_timestamp=path.virtual.clock.ms)
    record = Record(key=GROUP_RECORDS.encode_key(key), value=GROUP_RECORDS.encode_value(value))
    partition = path.partition("__consumer_offsets", path.groups.runtime.partition_of("g"))
    partition.append_built(build_batch([record]), now_ms=path.virtual.clock.ms)
    path.stop()
    path.start()
    assert path.fetch_offsets("g") == {T0: 5}
    assert delete(path, "g", "t", 0) == (NONE, [NONE])
    path.stop()
    path.start()
    assert path.fetch_offsets("g") == {}


def test_offsets_are_examined_in_turns(path: GroupPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deleted topic and the expiry concern every group of the broker."""
    monkeypatch.setattr("ottla.coordinator.group.service.OFFSETS_PER_TURN", 20)
    unused = path.create_topic("unused", 1)
    for number in range(50):
        assert path.commit_offsets(f"g{number}", {T0: number}) == {T0: NONE}
    path.groups.expire_offsets()
    path.commit(r.RemoveTopicRecord(topic_id=unused))
    turns = 0
    while path.replicas.slices:
        path.virtual.scheduler.run_turn()
        turns += 1
    assert turns > 2 * 50 // 20
    assert path.fetch_offsets("g49") == {T0: 49}


def test_a_new_topic_does_not_get_the_offsets_of_its_namesake(path: GroupPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal takes turns on a broker with very many offsets, so consumers may ask before it reaches a group."""
    assert path.commit_offsets("g", {T0: 5, ("t", 1): 7}) == {T0: NONE, ("t", 1): NONE}
    monkeypatch.setattr(type(path.groups), "_forget_topics", lambda *_: None)
    path.commit(r.RemoveTopicRecord(topic_id=path.image.topics.by_name["t"].topic_id))
    path.create_topic("t", 3)
    assert path.fetch_offsets("g", {"t": [0]}) == {T0: -1}
    assert path.fetch_offsets("g") == {}
    assert path.commit_offsets("g", {T0: 1}) == {T0: NONE}
    assert path.fetch_offsets("g") == path.fetch_offsets("g", {"t": [0]}) == {T0: 1}
