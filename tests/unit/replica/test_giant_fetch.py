"""Changes between two slices of a giant fetch; `test_fetch` checks that its responses are the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ottla.broker.apis import fetch
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.replica import giant_fetch
from ottla.replica.giant_fetch import plan_in_slices
from ottla.wire.codec import encode_parts
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from ottla.wire.packed import PackedResponse
from tests.support.data_path import DataPath, unpacked, values

VERSION = 12
PARTITIONS = 6


@pytest.fixture(autouse=True)
def small_is_giant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 4)
    monkeypatch.setattr(giant_fetch, "PARTITIONS_PER_SLICE", 2)


def begin(node: DataPath, count: int = PARTITIONS, **fields: Any) -> Deferred[FetchResponse]:
    response = node.fetch("t", dict.fromkeys(range(count), 0), version=VERSION, **fields)
    assert isinstance(response, Deferred)
    return response.then(partial(unpacked, version=VERSION))


def texts(response: FetchResponse) -> dict[int, list[str]]:
    return {data.partition_index: values(data.records) for topic in response.responses for data in topic.partitions}


def turns(node: DataPath, number: int) -> None:
    for _ in range(number):
        node.virtual.scheduler.run_turn()


def test_others_are_served_meanwhile(node: DataPath) -> None:
    node.create_topic("t", PARTITIONS)
    poll = begin(node)
    served = 0
    while not poll.done:
        node.virtual.scheduler.run_turn()
        # A request of another client, in the same turn.
        node.append("t", "x")
        served += 1
    # Three slices each to find, read and settle what is asked for, and to group what is answered; and its bytes.
    assert served >= 12
    assert set(texts(poll.result())) == set(range(PARTITIONS))


def test_as_many_as_fit_into_one_turn_are_served_at_once(node: DataPath) -> None:
    node.create_topic("t", 4)
    assert isinstance(node.fetch("t", dict.fromkeys(range(4), 0), version=VERSION), FetchResponse)


@pytest.mark.parametrize("index", [0, PARTITIONS - 1])
@pytest.mark.parametrize("turn", range(8))
def test_what_comes_while_it_reads_is_not_missed(node: DataPath, index: int, turn: int) -> None:
    node.create_topic("t", PARTITIONS)
    poll = begin(node, max_wait_ms=500)
    turns(node, turn)
    node.append("t", "late", index=index)
    node.virtual.scheduler.run()
    assert texts(poll.result())[index] == ["late"]
    assert not any(node.partition("t", number).parked_fetches for number in range(PARTITIONS))
    assert node.replicas.parking.parked == 0


def test_few_bytes_that_come_while_it_reads_do_not_make_it_read_everything_again(node: DataPath) -> None:
    node.create_topic("t", PARTITIONS)
    poll = begin(node, min_bytes=1_000_000, max_wait_ms=500)
    # Three slices each to find and to read the partitions.
    for _ in range(20):
        node.append("t", "x")
        turns(node, 1)
    assert len(node.replicas.slices) == 0
    assert not poll.done
    node.virtual.scheduler.advance(500)
    assert texts(poll.result())[0] == ["x"] * 20


@pytest.mark.parametrize("turn", range(8))
def test_bytes_that_come_while_it_reads_count(node: DataPath, turn: int) -> None:
    node.create_topic("t", PARTITIONS)
    poll = begin(node, min_bytes=100, max_wait_ms=500)
    turns(node, turn)
    node.append("t", "a" * 60)
    node.append("t", "b" * 60, index=PARTITIONS - 1)
    node.virtual.scheduler.run()
    assert poll.done


@pytest.mark.parametrize("turn", range(8))
def test_a_quiet_partition_of_a_follower_that_moves_is_not_missed(node: DataPath, turn: int) -> None:
    node.create_topic("t", PARTITIONS, replicas=(1, 2))
    follower = {"replica_id": 2, "max_wait_ms": 500}
    opened = begin(node, session_epoch=0, replica_id=2)
    node.virtual.scheduler.run()
    session_id = opened.result().session_id
    # The follower has reported its positions and has all records: from now on only moving partitions are read.
    again = begin(node, session_id=session_id, session_epoch=1, **follower)
    turns(node, turn)
    node.append("t", "late", index=1)
    node.virtual.scheduler.run()
    assert texts(again.result())[1] == ["late"]
    assert not any(node.partition("t", number).parked_replica_fetches for number in range(PARTITIONS))
    assert [data.partition_index for data in again.result().responses[0].partitions].count(1) == 1


@pytest.mark.parametrize("turn", range(8))
def test_a_topic_that_is_deleted_meanwhile(node: DataPath, turn: int) -> None:
    topic_id = node.create_topic("t", PARTITIONS)
    poll = begin(node, max_wait_ms=500)
    turns(node, turn)
    node.commit(r.RemoveTopicRecord(topic_id=topic_id))
    node.virtual.scheduler.run()
    errors = {data.error_code for topic in poll.result().responses for data in topic.partitions}
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in errors


def test_its_time_may_be_over_before_it_has_read_everything(node: DataPath) -> None:
    node.create_topic("t", PARTITIONS)
    poll = begin(node, max_wait_ms=500)
    turns(node, 2)
    node.virtual.scheduler.advance(500)
    assert set(texts(poll.result())) == set(range(PARTITIONS))
    assert node.replicas.parking.timeouts == 1


def test_one_that_is_overtaken_is_told_so(node: DataPath) -> None:
    node.create_topic("t", PARTITIONS)
    opened = begin(node, session_epoch=0)
    node.virtual.scheduler.run()
    session_id = opened.result().session_id
    first = begin(node, session_id=session_id, session_epoch=1)
    turns(node, 2)
    second = begin(node, session_id=session_id, session_epoch=2)
    node.virtual.scheduler.run()
    assert first.result().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert second.result().error_code == ErrorCode.NONE


def test_a_large_answer_brings_its_bytes_along(node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    node.create_topic("t", PARTITIONS)
    node.append("t", "a", index=3)
    offsets = dict.fromkeys(range(PARTITIONS + 3), 0)
    giant: Any = node.fetch("t", offsets, version=VERSION)
    node.virtual.scheduler.run()
    response = giant.result()
    assert isinstance(response, PackedResponse)
    response = response.throttled(77)
    monkeypatch.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 100)
    plain: Any = node.fetch("t", offsets, version=VERSION)
    plain.throttle_time_ms = 77
    assert _bytes(response.body) == _bytes(encode_parts(plain, VERSION))


def test_a_follower_is_served_in_slices_sooner_than_a_consumer(node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 100)
    monkeypatch.setattr(fetch.handler, "FOLLOWED_PER_TURN_MAX", 4)
    node.create_topic("t", PARTITIONS, replicas=(1, 2))
    node.append("t", "a", index=3)
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    assert isinstance(node.fetch("t", offsets, version=VERSION), FetchResponse)
    assert isinstance(node.fetch("t", dict.fromkeys(range(4), 0), version=VERSION, replica_id=2), FetchResponse)
    poll = begin(node, replica_id=2)
    node.virtual.scheduler.run()
    assert texts(poll.result())[3] == ["a"]


def test_nothing_is_left_of_one_without_a_session(node: DataPath) -> None:
    node.create_topic("t", PARTITIONS)
    parked: list[giant_fetch.GiantFetch] = []
    poll = begin(node, max_wait_ms=500)
    turns(node, 8)
    parked.extend(
        parked_fetch
        for parked_fetch in node.partition("t").parked_fetches
        if isinstance(parked_fetch, giant_fetch.GiantFetch)
    )
    node.virtual.scheduler.advance(500)
    assert poll.done
    (abandoned,) = parked
    assert (abandoned.targets, abandoned.refused, abandoned.plan.entries) == ([], [], {})


class TestPlans:
    def request(self, session_id: int = 0, epoch: int = 0, offset: int = 0, **fields: Any) -> FetchRequest:
        topics = [
            FetchTopic(
                topic=name, partitions=[FetchPartition(partition=number, fetch_offset=offset) for number in range(5)]
            )
            for name in ("a", "b")
        ]
        return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, **fields)

    def plan(self, node: DataPath, request: FetchRequest, *, version: int = VERSION) -> Any:
        planning = plan_in_slices(node.replicas.sessions, request, version=version, is_follower=False, now_ms=1)
        done = node.replicas.slices.run(planning)
        node.virtual.scheduler.run()
        return done.result()

    def open(self, node: DataPath) -> int:
        plan = self.plan(node, self.request())
        assert [(entry.topic, entry.index) for entry in plan.entries.values()] == [
            (name, index) for name in ("a", "b") for index in range(5)
        ]
        _, session_id, _ = node.replicas.sessions.settle(plan, [], now_ms=1)
        return session_id

    def test_an_incremental_one_changes_its_session(self, node: DataPath) -> None:
        session_id = self.open(node)
        forgotten = [ForgottenTopic(topic="a", partitions=[0]), ForgottenTopic(topic="b", partitions=[4])]
        plan = self.plan(node, self.request(session_id, 1, 7, forgotten_topics_data=forgotten))
        assert plan.error == ErrorCode.NONE
        assert {entry.fetch_offset for entry in plan.entries.values()} == {7}
        assert ("a", 0) not in plan.entries
        assert ("b", 4) not in plan.entries
        assert len(plan.entries) == 8

    def test_errors(self, node: DataPath) -> None:
        session_id = self.open(node)
        assert self.plan(node, self.request(session_id, 9)).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert self.plan(node, self.request(session_id + 1, 1)).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        by_id = self.request(session_id, 1)
        for topic in by_id.topics:
            topic.topic_id = Uuid(b"x" * 16)
        assert self.plan(node, by_id, version=13).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def _bytes(parts: list[Any]) -> bytes:
    return b"".join(part if isinstance(part, bytes) else part.read() for part in parts)
