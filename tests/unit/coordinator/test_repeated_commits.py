"""Commits that repeat an earlier commit with another offset are recognised, with the same result as without it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis.offset_commit import API
from ottla.broker.apis.offset_commit.shortcut import recognise
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.storage.errors import DiskFull
from ottla.wire.codec import encode
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.group_path import OFFSETS_TOPIC, GroupPath, Member, RecognisingPath, stable_group

T0 = ("t", 0)
NONE = ErrorCode.NONE


@pytest.fixture
def path(log_directory: str) -> Iterator[RecognisingPath]:
    recognising_path = started(RecognisingPath, log_directory)
    yield recognising_path
    recognising_path.stop()


def started(kind: type[Any], directory: str, **properties: str) -> Any:
    group_path = kind(directory, properties=properties)
    group_path.create_topic("t", 3)
    group_path.create_offsets_topic()
    return group_path


def request(
    group: str = "g", offset: int = 1, *, topic: str = "t", partitions: tuple[int, ...] = (0,), **fields: Any
) -> OffsetCommitRequest:
    metadata, topic_id = fields.pop("metadata", None), fields.pop("topic_id", Uuid.ZERO)
    wanted = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        for index in partitions
    ]
    named = OffsetCommitRequestTopic(name=topic if not topic_id else "", topic_id=topic_id, partitions=wanted)
    return OffsetCommitRequest(group_id=group, topics=[named], **fields)


def is_recognised(path: RecognisingPath, commit: OffsetCommitRequest, version: int = 9) -> bool:
    return path.handler_of(commit, path.context(commit.API_KEY, version), API)[1] is not API.handle


def written(directory: str) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in sorted(Path(directory).rglob("*.log"))}


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_committed_the_log_and_the_answers_are_the_same(log_directory: str, seed: int) -> None:
    outcomes = []
    for kind in (GroupPath, RecognisingPath):
        directory = f"{log_directory}/{kind.__name__}"
        Path(directory).mkdir()
        path = started(kind, directory)
        chance, answers = random.Random(seed), []
        topic_id = path.image.topics.by_name["t"].topic_id
        for _ in range(150):
            group, version = chance.choice(["a", "b", "c" * 40]), chance.choice([7, 8, 9, 10])
            commit = request(
                group,
                chance.randrange(1 << 40),
                partitions=chance.choice([(0,), (1,), (2,), (0, 1), (7,)]),
                generation_id_or_member_epoch=chance.choice([-1, -1, -1, 3]),
                member_id=chance.choice(["", "", "m"]),
                metadata=chance.choice([None, "", "", "here"]),
                topic_id=topic_id if version == 10 else Uuid.ZERO,
            )
            commit.topics[0].partitions[0].committed_leader_epoch = chance.choice([-1, 0, 5])
            answers.append((version, path.begin(commit, version)))
            if chance.random() < 0.4:
                path.run()
            if chance.random() < 0.2:
                path.advance(chance.choice([1, 20, 100]))
        path.run()
        offsets = [path.fetch_offsets(group) for group in ("a", "b", "c" * 40)]
        path.stop()
        answered = [encode(answer.result(), version) for version, answer in answers]
        outcomes.append((answered, offsets, written(directory)))
    assert outcomes[0] == outcomes[1]
    assert any(len(content) > 1000 for content in outcomes[0][2].values())


def test_only_what_differs_in_nothing_but_its_numbers_is_recognised(path: RecognisingPath) -> None:
    assert is_recognised(path, request())
    assert is_recognised(path, request(metadata=""))
    assert not is_recognised(path, request(metadata="m"))
    assert not is_recognised(path, request(partitions=(0, 1)))
    assert not is_recognised(path, request(partitions=(3,))), "there is no such partition"
    assert not is_recognised(path, request(), 7)
    assert not is_recognised(path, request(topic_id=Uuid(bytes(15) + b"x")), 10), "there is no such topic"
    for length in (126, 127, 128, 200, 300):
        assert is_recognised(path, request("g" * length)) == (length < 127)
        assert not is_recognised(path, request(member_id="m" * length, topic="x" * length))
        assert not is_recognised(path, request(topic="x" * length))


def test_a_frame_cut_short_is_not_recognised(path: RecognisingPath) -> None:
    frame = encode(request(), 9)
    context = path.context(OffsetCommitRequest.API_KEY, 9)
    for size in range(len(frame)):
        assert recognise(memoryview(frame[:size]), 0, context, path.broker) is None


def test_a_member_is_asked_for_its_generation_each_time(path: RecognisingPath) -> None:
    member = Member(path, "g")
    stable_group(path, member)
    assert member.commit({T0: 1}) is NONE
    assert member.commit({T0: 2}) is NONE
    member.generation += 1
    assert member.commit({T0: 3}) is ErrorCode.ILLEGAL_GENERATION
    member.generation -= 1
    assert path.commit_offsets("g", {T0: 9}) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert path.fetch_offsets("g") == {T0: 2}


def test_a_member_that_commits_is_alive(path: RecognisingPath) -> None:
    member = Member(path, "g", session_timeout_ms=10_000)
    stable_group(path, member)
    for offset in range(4):
        path.advance(8_000)
        assert member.commit({T0: offset}) is NONE
    path.advance(12_000)
    assert member.commit({T0: 9}) is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_topic_of_the_same_name_is_another_topic(path: RecognisingPath) -> None:
    first = path.image.topics.by_name["t"].topic_id
    assert path.commit_offsets("g", {T0: 1}) == {T0: NONE}
    path.commit(r.RemoveTopicRecord(topic_id=first))
    path.run()
    assert path.commit_offsets("g", {T0: 2}) == {T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    path.create_topic("t", 1)
    second = path.image.topics.by_name["t"].topic_id
    assert path.commit_offsets("g", {T0: 3}) == {T0: NONE}
    (committed,) = path.shard("g").offsets.of_group("g").values()
    assert (committed.offset, committed.topic_id) == (3, second)
    assert first != second


def test_a_failed_append_is_as_if_nothing_had_been_decided(
    path: RecognisingPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert path.commit_offsets("g", {T0: 1}) == {T0: NONE}
    log = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log

    def refuse(*_arguments: object, **_options: object) -> None:
        raise DiskFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(type(log), "append_record", refuse)
        assert path.commit_offsets("g", {T0: 2}) == {T0: ErrorCode.NOT_COORDINATOR}
    assert path.groups.runtime.settings.statistics.failed_batches == 1
    assert path.fetch_offsets("g") == {T0: 1}
    assert path.commit_offsets("g", {T0: 3}) == {T0: NONE}


def test_an_answer_waits_for_a_flush_that_the_topic_asks_for(log_directory: str) -> None:
    path = RecognisingPath(log_directory)
    path.create_topic("t", 1)
    path.create_offsets_topic(flush_messages="1")
    answer = path.begin(request(), 9)
    assert not answer.done
    path.run()
    assert answer.result().topics[0].partitions[0].error_code == 0
    path.stop()


def test_commits_of_one_turn_share_an_append(path: RecognisingPath) -> None:
    log = path.partition(OFFSETS_TOPIC, path.groups.runtime.partition_of("g")).log
    first = path.begin(request(offset=0), 9)
    assert first.done
    several = [path.begin(request(offset=offset), 9) for offset in range(1, 100)]
    assert not any(answer.done for answer in several)
    assert log.log_end_offset == 1
    path.run()
    assert all(answer.result().topics[0].partitions[0].error_code == 0 for answer in several)
    assert log.log_end_offset == 100
    path.stop()
    path.start()
    assert path.fetch_offsets("g") == {T0: 99}


def test_an_answer_that_may_be_throttled_is_not_shared(path: RecognisingPath, monkeypatch: pytest.MonkeyPatch) -> None:
    context_of = path.context

    def context_with_quota(api_key: int, version: int) -> Any:
        context = context_of(api_key, version)
        context.connection.quota = SimpleNamespace(is_set=True)
        return context

    unlimited = path.ask(request(), 9)
    monkeypatch.setattr(path, "context", context_with_quota)
    first, second = (path.ask(request(offset=offset), 9) for offset in (2, 3))
    assert len({id(response) for response in (unlimited, first, second)}) == 3
    first.throttle_time_ms = 100
    assert (second.throttle_time_ms, second.topics[0].partitions[0].error_code) == (0, 0)


def test_what_is_remembered_has_a_bound(path: RecognisingPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.group.offsets.repeated._REMEMBERED_MAX", 3)
    for number in range(10):
        assert is_recognised(path, request(f"g{number}"))
    assert len(path.groups.repeated_commits) <= 3


def test_nothing_is_remembered_of_a_deleted_topic(path: RecognisingPath) -> None:
    for number in range(5):
        path.create_topic(f"churn-{number}", 1)
        path.ask(request(topic=f"churn-{number}"), 9)
        assert is_recognised(path, request(topic=f"churn-{number}"))
        topic_id = path.broker.metadata.image.topics.by_name[f"churn-{number}"].topic_id
        path.commit(r.RemoveTopicRecord(topic_id=topic_id))
        assert len(path.groups.repeated_commits) == 0
        assert len(path.groups.context.commit_shapes) == 0
