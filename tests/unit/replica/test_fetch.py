"""Fetch, from the handler to the file: at once, and the same in slices, which is how giant ones are served."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ottla.broker.apis import fetch
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.records.control import build_end_transaction_marker
from ottla.replica import giant_fetch
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from tests.support.data_path import DataPath, batch, unpacked, values

AT_ONCE, IN_SLICES = "at once", "in slices"


class SlicedDataPath(DataPath):
    """A data path that treats every fetch as a giant fetch, in slices of one partition."""

    def call(self, handler: Any, request: Any, version: int) -> Any:
        if handler is not fetch:
            return super().call(handler, request, version)
        answer = fetch.handler.handle_in_slices(request, self.context(request.API_KEY, version), self.broker)
        assert not answer.done
        self.virtual.scheduler.run()
        read = answer.then(partial(unpacked, version=version))
        return read.result() if read.done else read


@pytest.fixture(params=[AT_ONCE, IN_SLICES])
def node(request: Any, log_directory: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataPath]:
    if request.param == IN_SLICES:
        monkeypatch.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 0)
        monkeypatch.setattr(giant_fetch, "PARTITIONS_PER_SLICE", 1)
    path = (SlicedDataPath if request.param == IN_SLICES else DataPath)(log_directory)
    yield path
    path.stop()


def answered(response: object) -> FetchResponse:
    assert isinstance(response, FetchResponse)
    return response


def waiting(response: object) -> Deferred[FetchResponse]:
    assert isinstance(response, Deferred)
    assert not response.done
    return response


def texts(response: FetchResponse) -> dict[int, list[str]]:
    return {
        data.partition_index: values(data.records)
        for topic in response.responses
        for data in topic.partitions
        if data.records
    }


def test_reads_from_the_file_without_loading(node: DataPath) -> None:
    node.create_topic("t")
    node.append("t", "a", "b")
    node.append("t", "c")
    data = node.fetch_one("t", 0)
    assert isinstance(data.records, FileRegion)
    assert values(data.records) == ["a", "b", "c"]
    assert (data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset) == (0, 3, 3, 0)
    assert data.aborted_transactions is None
    assert values(node.fetch_one("t", 2).records) == ["c"]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version(node: DataPath, version: int) -> None:
    topic_id = node.create_topic("t")
    node.append("t", "a")
    response = answered(node.fetch("t", {0: 0}, topic_id=topic_id, version=version))
    assert texts(response) == {0: ["a"]}


def test_the_end_is_empty_and_beyond_is_out_of_range(node: DataPath) -> None:
    node.create_topic("t")
    node.append("t", "a")
    assert node.fetch_one("t", 1).error_code == ErrorCode.NONE
    beyond = node.fetch_one("t", 2)
    assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    node.delete_records("t", 1)
    assert node.fetch_one("t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_above_the_high_watermark_is_empty(node: DataPath) -> None:
    node.create_topic("t", replicas=(1, 2))
    node.append("t", "a")
    data = node.fetch_one("t", 0)
    assert (data.error_code, data.high_watermark, values(data.records)) == (0, 0, [])
    assert node.fetch_one("t", 1).error_code == ErrorCode.NONE
    node.partition("t").on_follower_fetch(2, fetch_offset=1, log_start_offset=0, now_ms=1)
    assert values(node.fetch_one("t", 0).records) == ["a"]


def test_leader_epochs_are_checked(node: DataPath) -> None:
    topic_id = node.create_topic("t", replicas=(1, 2))
    node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
    node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1))
    assert node.partition("t").leader_epoch == 2
    assert node.fetch_one("t", 0, leader_epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert node.fetch_one("t", 0, leader_epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert node.fetch_one("t", 0, leader_epoch=2).error_code == ErrorCode.NONE


def test_unknown_topics(node: DataPath) -> None:
    assert node.fetch_one("u", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.fetch_one("u", 0, topic_id=Uuid(b"x" * 16), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID


class TestLimits:
    def test_whole_batches_up_to_the_partition_limit(self, node: DataPath) -> None:
        node.create_topic("t")
        for _ in range(3):
            node.append("t", "x" * 1_000)
        size = len(node.fetch_one("t", 0).records or b"")
        data = node.fetch_one("t", 0, partition_max_bytes=size * 2 // 3 + 10)
        assert len(values(data.records)) == 2

    def test_the_first_batch_comes_whatever_its_size(self, node: DataPath) -> None:
        node.create_topic("t", 2)
        node.append("t", "x" * 1_000, index=0)
        node.append("t", "y" * 1_000, index=1)
        response = answered(node.fetch("t", {0: 0, 1: 0}, max_bytes=1, partition_max_bytes=1))
        assert texts(response) == {0: ["x" * 1_000]}
        assert [data.partition_index for data in response.responses[0].partitions] == [0, 1]

    def test_the_brokers_own_limit(self, log_directory: str) -> None:
        node = DataPath(log_directory, properties={"fetch.max.bytes": "1024"})
        node.create_topic("t")
        for _ in range(3):
            node.append("t", "x" * 600)
        assert len(values(node.fetch_one("t", 0).records)) == 1
        node.stop()

    def test_the_total_limit(self, node: DataPath) -> None:
        node.create_topic("t", 3)
        for index in range(3):
            node.append("t", "x" * 1_000, index=index)
        response = answered(node.fetch("t", {0: 0, 1: 0, 2: 0}, max_bytes=2_500))
        assert set(texts(response)) == {0, 1}

    def test_busy_partitions_do_not_starve_the_others(self, node: DataPath) -> None:
        node.create_topic("t", 3)
        for index in range(3):
            node.append("t", "x" * 1_000, index=index)
        first = answered(node.fetch("t", {0: 0, 1: 0, 2: 0}, max_bytes=1_200, session_id=0, session_epoch=0))
        seen = []
        for epoch in range(1, 4):
            request = FetchRequest(
                session_id=first.session_id, session_epoch=epoch, max_bytes=1_200, min_bytes=1, topics=[]
            )
            seen.extend(texts(node.call(fetch, request, 12)))
        assert seen == [0, 1, 2]


class TestLongPoll:
    def test_answers_when_something_is_appended(self, node: DataPath) -> None:
        node.create_topic("t")
        timers = node.virtual.scheduler.timers
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500))
        node.append("t", "a")
        assert not poll.done
        node.virtual.scheduler.run()
        assert texts(poll.result()) == {0: ["a"]}
        assert not node.partition("t").parked_fetches
        assert node.virtual.scheduler.timers == timers

    def test_several_appends_of_one_turn_are_one_answer(self, node: DataPath) -> None:
        node.create_topic("t")
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500))
        node.append("t", "a")
        node.append("t", "b")
        node.virtual.scheduler.run()
        assert texts(poll.result()) == {0: ["a", "b"]}

    def test_empty_after_max_wait(self, node: DataPath) -> None:
        node.create_topic("t")
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500))
        node.virtual.scheduler.advance(499)
        assert not poll.done
        node.virtual.scheduler.advance(1)
        assert texts(poll.result()) == {}
        assert node.replicas.parking.parked == 0

    def test_min_bytes_over_several_partitions(self, node: DataPath) -> None:
        node.create_topic("t", 2)
        poll = waiting(node.fetch("t", {0: 0, 1: 0}, max_wait_ms=500, min_bytes=200))
        node.append("t", "x" * 30, index=0)
        node.virtual.scheduler.run()
        assert not poll.done
        # New bytes are counted: the fetch is not retried while there are too few.
        assert node.replicas.parking.retries == 0
        node.append("t", "y" * 100, index=1)
        node.virtual.scheduler.run()
        assert texts(poll.result()) == {0: ["x" * 30], 1: ["y" * 100]}

    def test_less_than_min_bytes_after_max_wait(self, node: DataPath) -> None:
        node.create_topic("t")
        node.append("t", "a")
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500, min_bytes=100_000))
        node.virtual.scheduler.advance(500)
        assert texts(poll.result()) == {0: ["a"]}

    def test_records_above_the_high_watermark_do_not_wake(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500))
        node.append("t", "a")
        node.virtual.scheduler.run()
        assert not poll.done
        node.partition("t").on_follower_fetch(2, fetch_offset=1, log_start_offset=0, now_ms=1)
        node.virtual.scheduler.run()
        assert texts(poll.result()) == {0: ["a"]}

    @pytest.mark.parametrize("min_bytes", [1, 200])
    def test_what_is_committed_bit_by_bit_wakes_each_time(self, node: DataPath, min_bytes: int) -> None:
        """Followers have mostly fetched a part of what is there when the high watermark moves."""
        node.create_topic("t", replicas=(1, 2))
        partition = node.partition("t")
        for text in "abc":
            node.append("t", text * 200)
        for offset, text in enumerate("abc"):
            poll = waiting(node.fetch("t", {0: offset}, max_wait_ms=500, min_bytes=min_bytes))
            partition.on_follower_fetch(2, fetch_offset=offset + 1, log_start_offset=0, now_ms=1)
            node.virtual.scheduler.run()
            assert texts(poll.result()) == {0: [text * 200]}

    def test_what_was_there_before_a_restart_wakes_when_it_is_committed(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        node.append("t", "a")
        node.stop()
        node.start()
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500))
        node.partition("t").on_follower_fetch(2, fetch_offset=1, log_start_offset=0, now_ms=1)
        node.virtual.scheduler.run()
        assert texts(poll.result()) == {0: ["a"]}

    def test_an_error_is_told_at_once(self, node: DataPath) -> None:
        node.create_topic("t", 2)
        response = answered(node.fetch("t", {0: 0, 1: 7}, max_wait_ms=500))
        assert [data.error_code for data in response.responses[0].partitions] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]

    def test_an_unknown_partition_does_not_hasten_the_others(self, node: DataPath) -> None:
        node.create_topic("t")
        poll = waiting(node.fetch("t", {0: 0, 5: 0}, max_wait_ms=500))
        node.virtual.scheduler.advance(500)
        errors = {data.partition_index: data.error_code for data in poll.result().responses[0].partitions}
        assert errors == {0: 0, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def test_a_deleted_topic_is_told_at_once(self, node: DataPath) -> None:
        topic_id = node.create_topic("t")
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500))
        node.commit(r.RemoveTopicRecord(topic_id=topic_id))
        node.virtual.scheduler.run()
        data = poll.result().responses[0].partitions[0]
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_lost_lead_is_told_at_once(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2))
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500, version=10))
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
        node.virtual.scheduler.run()
        assert poll.result().responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_new_epoch_is_told_at_once(self, node: DataPath) -> None:
        topic_id = node.create_topic("t")
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500, leader_epoch=0))
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1))
        node.virtual.scheduler.run()
        assert poll.result().responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH

    def test_no_more_than_a_bounded_number_wait(self, node: DataPath) -> None:
        node.create_topic("t")
        node.replicas.parking.parked_max = 1
        waiting(node.fetch("t", {0: 0}, max_wait_ms=500))
        assert texts(answered(node.fetch("t", {0: 0}, max_wait_ms=500))) == {}


class TestSessions:
    def open(self, node: DataPath, offsets: dict[int, int], **fields: Any) -> FetchResponse:
        return answered(node.fetch("t", offsets, session_id=0, session_epoch=0, **fields))

    def again(self, node: DataPath, session_id: int, epoch: int, version: int = 12, **fields: Any) -> Any:
        request = FetchRequest(session_id=session_id, session_epoch=epoch, min_bytes=1, topics=[], **fields)
        return node.call(fetch, request, version)

    def test_nothing_new_is_an_empty_answer(self, node: DataPath) -> None:
        node.create_topic("t", 2)
        session_id = self.open(node, {0: 0, 1: 0}).session_id
        assert session_id > 0
        response = answered(self.again(node, session_id, 1))
        assert (response.session_id, response.responses) == (session_id, [])

    def test_only_what_changed(self, node: DataPath) -> None:
        node.create_topic("t", 2)
        session_id = self.open(node, {0: 0, 1: 0}).session_id
        node.append("t", "a", index=1)
        assert texts(answered(self.again(node, session_id, 1))) == {1: ["a"]}

    def at_the_end(self, node: DataPath) -> int:
        """A session whose consumer has read everything and knows the high watermark."""
        node.append("t", "a", "b")
        session_id = self.open(node, {0: 2}).session_id
        assert answered(self.again(node, session_id, 1)).responses == []
        return session_id

    def test_a_new_start_of_the_log_is_news_at_the_end(self, node: DataPath) -> None:
        node.create_topic("t")
        session_id = self.at_the_end(node)
        node.delete_records("t", 1)
        assert answered(self.again(node, session_id, 2)).responses[0].partitions[0].log_start_offset == 1

    def test_a_lost_lead_is_news_at_the_end(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2), isr=(1,))
        session_id = self.at_the_end(node)
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
        data = answered(self.again(node, session_id, 2, version=10)).responses[0].partitions[0]
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_parked_session_wakes(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", 2)
        session_id = self.open(node, {0: 0, 1: 0}, topic_id=topic_id, version=13).session_id
        poll = waiting(self.again(node, session_id, 1, version=13, max_wait_ms=500))
        node.append("t", "a", index=0)
        node.virtual.scheduler.run()
        assert texts(poll.result()) == {0: ["a"]}
        assert poll.result().responses[0].topic_id == topic_id

    def test_a_recreated_topic_by_name(self, node: DataPath) -> None:
        topic_id = node.create_topic("t")
        session_id = self.open(node, {0: 0}).session_id
        node.commit(r.RemoveTopicRecord(topic_id=topic_id))
        node.create_topic("t")
        node.settle()
        node.append("t", "new")
        assert texts(answered(self.again(node, session_id, 1))) == {0: ["new"]}

    def test_a_recreated_topic_by_id(self, node: DataPath) -> None:
        topic_id = node.create_topic("t")
        session_id = self.open(node, {0: 0}, topic_id=topic_id, version=13).session_id
        node.commit(r.RemoveTopicRecord(topic_id=topic_id))
        node.create_topic("t")
        node.settle()
        node.append("t", "new")
        response = answered(self.again(node, session_id, 1, version=13))
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_session_errors(self, node: DataPath) -> None:
        node.create_topic("t")
        session_id = self.open(node, {0: 0}).session_id
        assert answered(self.again(node, 12345, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert answered(self.again(node, session_id, 9)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


class TestFollowers:
    def test_a_follower_reads_to_the_end_and_moves_the_high_watermark(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        node.append("t", "a")
        data = node.fetch_one("t", 0, replica_id=2)
        assert (values(data.records), data.high_watermark) == (["a"], 0)
        assert node.fetch_one("t", 1, replica_id=2).high_watermark == 1
        assert node.partition("t").high_watermark == 1

    def test_a_parked_follower_wakes_with_the_append(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500, replica_id=2))
        node.append("t", "a")
        node.virtual.scheduler.run()
        assert texts(poll.result()) == {0: ["a"]}
        assert not node.partition("t").parked_replica_fetches

    def test_a_follower_that_waits_has_asked_once(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        node.virtual.scheduler.advance(1_000)
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500, replica_id=2))
        progress = node.partition("t").follower_progress(2)
        assert progress is not None
        asked_ms = progress.fetched_ms
        node.virtual.scheduler.advance(100)
        node.append("t", "a")
        node.virtual.scheduler.run()
        assert texts(poll.result()) == {0: ["a"]}
        assert progress.fetched_ms == asked_ms

    def test_a_follower_that_has_waited_for_nothing_has_timed_out(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500, replica_id=2))
        node.virtual.scheduler.advance(500)
        assert poll.done
        assert node.replicas.parking.timeouts == 1

    def test_a_stranger_is_no_follower(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        assert node.fetch_one("t", 0, replica_id=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        # The response has no information about the log.
        assert node.fetch_one("t", 99, replica_id=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_where_two_logs_part(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        node.append("t", "a", "b")
        request = node.fetch_request("t", {0: 3}, replica_id=2)
        request.topics[0].partitions[0].last_fetched_epoch = 0
        data = node.call(fetch, request, 12).responses[0].partitions[0]
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)


class TestCommittedTransactions:
    """Readers of committed transactions, on a log into which transactions were written by hand."""

    def write(self, node: DataPath, producer_id: int, *texts: str) -> None:
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        self.append(node, bytearray(batch(*texts, **options)))

    def end(self, node: DataPath, producer_id: int, *, is_commit: bool) -> None:
        marker = build_end_transaction_marker(
            is_commit=is_commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp_ms=1
        )
        self.append(node, marker)

    def append(self, node: DataPath, built: bytearray) -> None:
        node.partition("t").append_built(built, now_ms=node.virtual.clock.ms)

    def test_nothing_beyond_an_open_transaction(self, node: DataPath) -> None:
        node.create_topic("t")
        node.append("t", "before")
        self.write(node, 5, "open")
        node.append("t", "after")
        data = node.fetch_one("t", 0, isolation_level=1)
        assert (values(data.records), data.high_watermark, data.last_stable_offset) == (["before"], 3, 1)
        assert data.aborted_transactions == []
        assert node.fetch_one("t", 1, isolation_level=1).records == b""
        assert values(node.fetch_one("t", 0).records) == ["before", "open", "after"]
        assert node.list_offset("t", -1, isolation_level=1).offset == 1
        assert node.list_offset("t", -1).offset == 3

    def test_aborted_transactions_are_named(self, node: DataPath) -> None:
        node.create_topic("t")
        self.write(node, 5, "bad")
        self.write(node, 6, "good")
        self.end(node, 5, is_commit=False)
        self.end(node, 6, is_commit=True)
        data = node.fetch_one("t", 0, isolation_level=1)
        assert data.last_stable_offset == 4
        assert data.aborted_transactions is not None
        named = [(aborted.producer_id, aborted.first_offset) for aborted in data.aborted_transactions]
        assert named == [(5, 0)]

    def test_the_end_of_a_transaction_wakes(self, node: DataPath) -> None:
        node.create_topic("t")
        poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500, min_bytes=1_000, isolation_level=1))
        self.write(node, 5, "a" * 1_000)
        node.virtual.scheduler.run()
        assert not poll.done
        self.end(node, 5, is_commit=True)
        node.virtual.scheduler.run()
        assert len(texts(poll.result())[0]) == 2


def test_a_read_that_ends_with_its_segment_does_not_wait(node: DataPath) -> None:
    node.create_topic("t")
    node.append("t", "a")
    node.partition("t").log.roll()
    node.append("t", "b")
    response = answered(node.fetch("t", {0: 0}, max_wait_ms=500, min_bytes=10_000))
    assert texts(response) == {0: ["a"]}


def test_leader_hint(node: DataPath) -> None:
    topic_id = node.create_topic("t", replicas=(2, 3), leader=2)
    data = node.fetch_one("", 0, topic_id=topic_id, version=16)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader is not None
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 0)
