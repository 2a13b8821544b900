"""The runtime: one append per turn, no answer before commit, loading, and what happens when the log refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.coordinator.runtime import ShardStatus, UnknownRecord, partition_for
from ottla.coordinator.runtime.hashing import java_hash
from ottla.coordinator.runtime.loader import RECORDS_PER_TURN
from ottla.coordinator.runtime.shard import LONG_RUN
from ottla.coordinator.runtime.status import TRANSITIONS
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.build import build_batch
from ottla.records.iterate import iterate_batches
from ottla.records.record import Record
from ottla.replica.markers import EndMarker, append_marker
from ottla.storage.errors import DiskFull
from ottla.storage.log import PartitionLog
from ottla.wire.codec import MalformedMessage
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.group_path import OFFSETS_TOPIC, GroupPath, Member

T0 = ("t", 0)


def commit_request(group_id: str, offset: int, *, metadata: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return OffsetCommitRequest(group_id=group_id, topics=[topic])


def code_of(answer: Deferred[Any]) -> ErrorCode:
    return ErrorCode(answer.result().topics[0].partitions[0].error_code)


def batch_ends(log: PartitionLog) -> list[int]:
    """The offset after each batch of the log."""
    content = log.read(0, max_bytes=1 << 20, end_offset=log.log_end_offset)
    assert content.region is not None
    return [batch.header.next_offset for batch in iterate_batches(content.region.read())]


def log_end(path: GroupPath, group_id: str) -> int:
    return path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of(group_id)).log.log_end_offset


@pytest.mark.parametrize(
    # Computed by Java: (s.hashCode() == Integer.MIN_VALUE ? 0 : Math.abs(s.hashCode())) % count
    ("key", "count", "partition"),
    [
        ("", 50, 0),
        ("a", 50, 47),
        ("test-group", 50, 12),
        ("polygenelubricants", 50, 0),
        ("grüße", 50, 23),
        ("\U0001f600", 50, 49),
    ],
)
def test_keys_belong_to_the_partition_java_would_say(key: str, count: int, partition: int) -> None:
    assert partition_for(key, count) == partition


def test_long_keys_hash_like_short_ones() -> None:
    # 31^n of "a" repeated, by Java's definition and arithmetic.
    code = 0
    for _ in range(300):
        code = (31 * code + ord("a")) & 0xFFFFFFFF
    assert java_hash("a" * 300) & 0xFFFFFFFF == code
    assert partition_for("a" * 300, 50) == abs(java_hash("a" * 300)) % 50


def test_the_table_of_states_is_closed() -> None:
    assert TRANSITIONS.keys() == set(ShardStatus)
    assert not TRANSITIONS[ShardStatus.CLOSED]


# The commit gate.


def test_decisions_of_one_turn_share_an_append_and_see_each_other(path: GroupPath) -> None:
    log = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log
    first = path.begin(commit_request("g", 0), 9)
    assert first.done, "a shard that expects no others writes at once"
    assert log.log_end_offset == 1
    answers = [path.begin(commit_request("g", offset), 9) for offset in range(1, 10)]
    assert [committed.offset for committed in path.shard("g").offsets.of_group("g").values()] == [9], "replayed at once"
    assert not any(answer.done for answer in answers), "and not answered before it is written"
    assert log.log_end_offset == 1
    path.run()
    assert [code_of(answer) for answer in answers] == [ErrorCode.NONE] * 9
    assert batch_ends(log) == [1, 10]


def test_a_shard_that_had_company_waits_for_it_and_one_that_had_none_does_not(path: GroupPath) -> None:
    log = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log
    for _ in range(3):
        path.begin(commit_request("g", 1), 9)
    path.run()
    several = [path.begin(commit_request("g", offset), 9) for offset in (2, 3, 4)]
    assert not any(answer.done for answer in several)
    path.run()
    assert batch_ends(log) == [1, 3, 6]
    pair = [path.begin(commit_request("g", offset), 9) for offset in (5, 6)]
    assert not any(answer.done for answer in pair)
    path.run()
    assert path.begin(commit_request("g", 7), 9).done, "two are not worth waiting for"
    assert batch_ends(log) == [1, 3, 6, 8, 9]


def test_a_long_commit_is_a_batch_of_its_own(path: GroupPath) -> None:
    log = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log
    for _ in range(3):
        path.begin(commit_request("g", 1), 9)
    path.run()
    small = path.begin(commit_request("g", 2), 9)
    request = commit_request("g", 3)
    (topic,) = request.topics
    topic.partitions = topic.partitions * LONG_RUN
    assert not small.done
    assert path.begin(request, 9).done, "written at once"
    assert small.done, "and what came before it, before it"
    assert batch_ends(log) == [1, 3, 4, 4 + LONG_RUN]


def test_a_question_waits_for_what_was_decided_before_it(path: GroupPath) -> None:
    path.begin(commit_request("g", 4), 9)
    commit = path.begin(commit_request("g", 5), 9)
    question = path.groups.submit("g", lambda shard, _: Decision((), dict(shard.offsets.of_group("g"))))
    assert not question.done
    path.run()
    assert commit.done
    assert [committed.offset for committed in question.result().values()] == [5]
    assert path.groups.submit("g", lambda _, now_ms: Decision((), now_ms)).done, "nothing to wait for"


def test_a_defect_behind_one_answer_keeps_no_other_waiting(path: GroupPath, caplog: pytest.LogCaptureFixture) -> None:
    def break_down(*_: object) -> None:
        raise ValueError("a defect of the question")

    def answer(_state: object, now_ms: int, *, breaks: bool = False) -> Decision[int]:
        return Decision((), now_ms, on_settled=break_down if breaks else None)

    commits = [path.begin(commit_request("g", offset), 9) for offset in range(2)]
    answers = [path.groups.submit("g", partial(answer, breaks=number == 0)) for number in range(3)]
    answers[1].when_done(break_down)
    path.run()
    assert [code_of(commit) for commit in commits] == [ErrorCode.NONE] * 2
    assert all(response.done for response in answers)
    assert [record.exc_info is not None and record.exc_info[0] for record in caplog.records] == [ValueError] * 2
    assert path.commit_offsets("g", {T0: 2}) == {T0: ErrorCode.NONE}


def test_a_batch_never_exceeds_what_the_topic_takes(path: GroupPath) -> None:
    path.commit(r.ConfigRecord(resource_type=2, resource_name=OFFSETS_TOPIC, name="max.message.bytes", value="2000"))
    answers = [path.begin(commit_request("g", offset, metadata="m" * 300), 9) for offset in range(20)]
    path.run()
    assert [code_of(answer) for answer in answers] == [ErrorCode.NONE] * 20
    log = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log
    content = log.read(0, max_bytes=1 << 20, end_offset=20)
    assert content.region is not None
    assert all(batch.header.size <= 2000 for batch in iterate_batches(content.region.read()))
    too_large = path.begin(commit_request("g", 99, metadata="m" * 1990), 9)
    path.run()
    assert code_of(too_large) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert path.fetch_offsets("g") == {T0: 19}


def test_a_failed_append_is_as_if_nothing_had_been_decided(path: GroupPath, monkeypatch: pytest.MonkeyPatch) -> None:
    path.commit_offsets("g", {T0: 1})
    index = path.groups.runtime.partition_of("g")
    partition = path.partition(OFFSETS_TOPIC, index)
    neighbour = next(name for name in "abcdefh" if path.groups.runtime.partition_of(name) == index)
    member = Member(path, neighbour)
    member.join()

    def refuse(*_arguments: object, **_options: object) -> None:
        raise DiskFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(type(partition.log), "append_built", refuse)
        answer = path.begin(commit_request("g", 2), 9)
        path.run()
    assert code_of(answer) is ErrorCode.NOT_COORDINATOR
    assert member.join_code is ErrorCode.NOT_COORDINATOR, "what it waited for is forgotten"
    assert path.fetch_offsets("g") == {T0: 1}
    assert path.commit_offsets("g", {T0: 3}) == {T0: ErrorCode.NONE}


def share(path: GroupPath, *, isr: tuple[int, ...], min_insync: str = "1") -> None:
    """The offsets topic gets a follower that never fetches."""
    path.create_topic(OFFSETS_TOPIC, 1, replicas=(1, 2), isr=isr, min_insync_replicas=min_insync)
    path.run()


def test_too_few_replicas_are_noticed_before_anything_changes(log_directory: str) -> None:
    path = GroupPath(log_directory)
    path.create_topic("t", 1)
    share(path, isr=(1,), min_insync="2")
    before = path.shard("g")
    assert path.commit_offsets("g", {T0: 1}) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert path.fetch_offsets("g") == {}
    assert log_end(path, "g") == 0
    assert path.shard("g") is before, "nothing had to be loaded again"
    path.stop()


def test_an_answer_waits_for_followers_but_not_for_ever(log_directory: str) -> None:
    path = GroupPath(log_directory)
    path.create_topic("t", 1)
    share(path, isr=(1, 2))
    first = path.begin(commit_request("g", 1), 9)
    path.advance(1_000)
    second = path.begin(commit_request("g", 2), 9)
    question = path.groups.submit("g", lambda _, now_ms: Decision((), now_ms))
    path.advance(3_999)
    assert not first.done
    late = path.groups.submit("g", lambda _, now_ms: Decision((), now_ms))
    assert not late.done
    path.advance(1)
    assert code_of(first) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not second.done
    partition = path.partition(OFFSETS_TOPIC)
    partition.on_follower_fetch(2, fetch_offset=2, log_start_offset=0, now_ms=path.virtual.clock.ms)
    path.run()
    assert code_of(second) is ErrorCode.NONE
    assert question.done
    assert late.done
    path.stop()


def test_lost_leadership_ends_everything_that_waits(log_directory: str) -> None:
    path = GroupPath(log_directory)
    path.create_topic("t", 1)
    share(path, isr=(1, 2))
    waiting = path.begin(commit_request("g", 1), 9)
    path.run()
    topic_id = path.image.topics.by_name[OFFSETS_TOPIC].topic_id
    path.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
    path.run()
    assert code_of(waiting) is ErrorCode.NOT_COORDINATOR
    assert path.commit_offsets("g", {T0: 1}) == {T0: ErrorCode.NOT_COORDINATOR}
    path.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1, isr=[1]))
    path.run()
    assert path.fetch_offsets("g") == {T0: 1}, "it was in the log, and is committed now"
    path.stop()


def test_timers_die_with_their_shard(path: GroupPath) -> None:
    fired: list[int] = []
    shard = path.groups.runtime.shard_of("g")

    def decide(_: object, now_ms: int) -> Decision[None]:
        fired.append(now_ms)
        return Decision((), None)

    shard.timers.schedule("a", 1_000, decide)
    shard.timers.schedule("a", 2_000, decide)
    path.advance(1_500)
    assert fired == []
    path.advance(500)
    assert len(fired) == 1
    shard.timers.schedule("b", 1_000, decide)
    path.groups.close()
    path.advance(2_000)
    assert len(fired) == 1
    assert shard.status is ShardStatus.CLOSED


def test_a_timer_that_cannot_be_written_down_is_tried_again(path: GroupPath) -> None:
    attempts: list[int] = []
    shard = path.groups.runtime.shard_of("g")

    def decide(_: object, now_ms: int) -> Decision[None]:
        attempts.append(now_ms)
        if len(attempts) < 3:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Decision((), None)

    shard.timers.schedule("a", 0, decide)
    path.advance(5_000)
    assert [attempt - attempts[0] for attempt in attempts] == [0, 500, 1_000]


# Loading.


def test_requests_wait_their_turn_while_a_shard_is_loading(path: GroupPath) -> None:
    for number in range(1_000):
        path.begin(commit_request("g", number), 9)
    path.run()
    member = Member(path, "g")
    member.member_id, member.generation = "m", 1
    path.stop()
    path.start(runs=False)
    shard = path.groups.runtime.shard_of("g")
    assert shard.status is ShardStatus.LOADING
    assert code_of(path.begin(commit_request("g", 1), 9)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.heartbeat() is ErrorCode.NONE, "whether it is a member is not known yet"
    path.run()
    assert shard.status is ShardStatus.ACTIVE
    assert path.fetch_offsets("g") == {T0: 999}


def test_markers_are_replayed_in_turns_like_records(path: GroupPath) -> None:
    """Compaction removes the offsets of old transactions at once, and their markers a day later."""
    partition = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g"))
    for _ in range(5 * RECORDS_PER_TURN):
        append_marker(partition, EndMarker(7, 0, coordinator_epoch=0, is_commit=True), now_ms=path.virtual.clock.ms)
    path.stop()
    path.start(runs=False)
    shard = path.groups.runtime.shard_of("g")
    turns: list[int] = []

    def count_turn() -> None:
        if shard.status is ShardStatus.LOADING:
            turns.append(1)
            path.virtual.scheduler.call_soon(count_turn)

    count_turn()
    path.run()
    assert shard.status is ShardStatus.ACTIVE
    assert len(turns) > 5


def test_half_a_list_is_no_list(path: GroupPath, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = path.groups.runtime.shard_of("g")
    monkeypatch.setattr(shard, "status", ShardStatus.LOADING)
    assert path.ask(ListGroupsRequest(), 5).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def append_raw(path: GroupPath, group_id: str, key: bytes, value: bytes | None) -> None:
    partition = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of(group_id))
    record = Record(key=key, value=value, timestamp=path.virtual.clock.ms)
    partition.append_built(build_batch([record]), now_ms=path.virtual.clock.ms)


def test_records_of_newer_software_are_left_alone(path: GroupPath) -> None:
    path.commit_offsets("g", {T0: 1})
    append_raw(path, "g", b"\x7f\x00whatever", b"\x00\x00")
    append_raw(path, "g", GROUP_RECORDS.encode_key(OffsetCommitKey(group="g", topic="t", partition=1)), b"\x00\x63")
    path.commit_offsets("g", {("t", 2): 2})
    path.stop()
    path.start()
    assert path.fetch_offsets("g") == {T0: 1, ("t", 2): 2}


def test_a_log_that_cannot_be_understood_is_not_served(path: GroupPath) -> None:
    path.commit_offsets("g", {T0: 1})
    append_raw(path, "g", GROUP_RECORDS.encode_key(OffsetCommitKey(group="g", topic="t", partition=1)), b"\x00\x03\x00")
    path.stop()
    path.start()
    assert path.groups.runtime.shard_of("g").status is ShardStatus.FAILED
    assert path.commit_offsets("g", {T0: 1}) == {T0: ErrorCode.NOT_COORDINATOR}


def test_a_rotten_record_is_not_replayed(path: GroupPath) -> None:
    path.commit_offsets("g", {T0: 1})
    log = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log
    log.roll()
    path.commit_offsets("g", {("t", 2): 2})
    path.stop()
    segment = Path(log.segments[0].path)
    content = bytearray(segment.read_bytes())
    # The last byte of the committed offset's value, before the count of headers.
    content[-2] ^= 1
    segment.write_bytes(content)
    path.start()
    assert path.groups.runtime.shard_of("g").status is ShardStatus.FAILED
    log = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log
    assert list(log.files.failures.damaged_segments) == [0]


def test_the_records_read_back_as_they_were_written() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=11)
    encoded = GROUP_RECORDS.encode_key(key), GROUP_RECORDS.encode_value(value)
    assert (encoded[0][:2], encoded[1][:2]) == (b"\x00\x01", b"\x00\x03")
    assert GROUP_RECORDS.decode(memoryview(encoded[0]), memoryview(encoded[1])) == (key, value)
    assert GROUP_RECORDS.decode(memoryview(encoded[0]), None) == (key, None)
    for damaged_key, damaged_value, error in (
        (b"\x00", None, MalformedMessage),
        (b"\x00\x09", None, UnknownRecord),
        (encoded[0], b"\x01", MalformedMessage),
        (encoded[0], b"\x00\x09", UnknownRecord),
    ):
        with pytest.raises(error):
            GROUP_RECORDS.decode(memoryview(damaged_key), None if damaged_value is None else memoryview(damaged_value))


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_the_codec_of_the_topic_is_used(make: Callable[..., GroupPath], codec: int) -> None:
    path = make(offsets_topic_compression_codec=str(codec))
    answers = [path.begin(commit_request("g", offset, metadata="again and again " * 5), 9) for offset in range(20)]
    path.run()
    assert {code_of(answer) for answer in answers} == {ErrorCode.NONE}
    content = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log.read(
        0, max_bytes=1 << 20, end_offset=20
    )
    assert content.region is not None
    # The first decision is written at once, the others in one append.
    assert [batch.header.codec for batch in iterate_batches(content.region.read())] == [codec] * 2
    path.stop()
    path.start()
    assert path.fetch_offsets("g") == {T0: 19}


def test_records_are_collected_as_long_as_the_setting_says(make: Callable[..., GroupPath]) -> None:
    path = make(group_coordinator_append_linger_ms="20")
    first = path.begin(commit_request("g", 1), 9)
    path.advance(19)
    second = path.begin(commit_request("g", 2), 9)
    path.run()
    assert not first.done
    path.advance(1)
    assert code_of(first) is code_of(second) is ErrorCode.NONE
