"""Produce, from the handler to the log."""

from __future__ import annotations

import gc
import struct
from typing import Any

import pytest
from crc32c import crc32c

from ottla.broker.apis import produce
from ottla.broker.context import CloseConnection
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.records.compression import Codec
from ottla.replica.appends import APPENDS_WAITING_MAX, append
from ottla.replica.partition import Partition
from ottla.replica.schema_checks import SchemaChecks
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.data_path import DataPath, batch, values


def answered(answer: object) -> PartitionProduceResponse:
    assert isinstance(answer, PartitionProduceResponse)
    return answer


@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_follow_each_other(node: DataPath, acks: int) -> None:
    node.create_topic("t")
    first = answered(node.produce("t", batch("a", "b"), acks=acks))
    second = answered(node.produce("t", batch("c"), acks=acks))
    assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
    assert (first.log_append_time_ms, first.log_start_offset) == (-1, 0)
    assert node.partition("t").high_watermark == 3


def test_acks_zero_has_no_answer(node: DataPath) -> None:
    node.create_topic("t")
    assert node.produce("t", batch("a"), acks=0) is None
    assert node.partition("t").high_watermark == 1


def test_acks_zero_closes_the_connection_on_error(node: DataPath) -> None:
    with pytest.raises(CloseConnection):
        node.produce("missing", batch("a"), acks=0)


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(node: DataPath, acks: int) -> None:
    node.create_topic("t")
    answer = answered(node.produce("t", batch("a"), acks=acks))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert node.partition("t").log.log_end_offset == 0


def test_unknown_topic_and_partition(node: DataPath) -> None:
    node.create_topic("t")
    assert answered(node.produce("u", batch("a"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answered(node.produce("t", batch("a"), index=1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_by_id(node: DataPath) -> None:
    topic_id = node.create_topic("t")
    for wanted, error in ((topic_id, ErrorCode.NONE), (Uuid(b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID)):
        data = TopicProduceData(topic_id=wanted, partition_data=[PartitionProduceData(index=0, records=batch("a"))])
        response = node.call(produce, ProduceRequest(acks=1, topic_data=[data]), 13)
        assert response.responses[0].topic_id == wanted
        assert response.responses[0].partition_responses[0].error_code == error


def test_one_bad_partition_does_not_spoil_the_others(node: DataPath) -> None:
    node.create_topic("t", 2)
    damaged = batch("a")
    damaged[-1] ^= 1
    data = TopicProduceData(
        name="t",
        partition_data=[
            PartitionProduceData(index=0, records=damaged),
            PartitionProduceData(index=1, records=batch("b")),
        ],
    )
    answers = node.call(produce, ProduceRequest(acks=1, topic_data=[data]), 12).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]
    assert answers[0].error_message
    assert answers[0].log_start_offset == -1
    assert node.partition("t", 0).log.log_end_offset == 0
    assert node.partition("t", 1).log.log_end_offset == 1


def test_records_at_fault_are_named(node: DataPath) -> None:
    node.create_topic("t", cleanup_policy="compact")
    answer = answered(node.produce("t", batch("a", "b")))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert answer.error_message


def test_log_append_time(node: DataPath) -> None:
    node.create_topic("t", message_timestamp_type="LogAppendTime")
    node.virtual.clock.ms = 1_700_000_123_456
    assert answered(node.produce("t", batch("a"))).log_append_time_ms == 1_700_000_123_456


def test_missing_records_are_refused(node: DataPath) -> None:
    node.create_topic("t")
    assert answered(node.produce("t", memoryview(b""))).error_code == ErrorCode.INVALID_RECORD
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=None)])
    response = node.call(produce, ProduceRequest(acks=1, topic_data=[data]), 12)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD


def test_transactional_batches_need_a_transactional_id(node: DataPath) -> None:
    node.create_topic("t")
    records = batch("a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert answered(node.produce("t", records)).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert node.partition("t").log.log_end_offset == 0


def test_internal_topics_are_not_for_clients(node: DataPath) -> None:
    node.create_topic("__consumer_offsets")
    assert answered(node.produce("__consumer_offsets", batch("a"))).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def register_another_broker(node: DataPath) -> None:
    node.commit(
        r.RegisterBrokerRecord(
            broker_id=2,
            broker_epoch=1,
            fenced=False,
            end_points=[r.BrokerEndpoint(name="PLAINTEXT", host="other", port=9, security_protocol=0)],
        )
    )


def test_not_the_leader_tells_who_is(node: DataPath) -> None:
    register_another_broker(node)
    node.create_topic("t", replicas=(1, 2), leader=2)
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch("a"))])
    response = node.call(produce, ProduceRequest(acks=1, topic_data=[data]), 12)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 0)
    assert [(point.node_id, point.host, point.port) for point in response.node_endpoints] == [(2, "other", 9)]


def test_who_does_not_lead_does_not_look_at_the_records(node: DataPath) -> None:
    node.create_topic("t", replicas=(1, 2), leader=2)
    damaged = batch("a")
    damaged[-1] ^= 1
    assert answered(node.produce("t", damaged)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestIdempotence:
    def produce(self, node: DataPath, sequence: int, text: str = "x", epoch: int = 0) -> PartitionProduceResponse:
        return answered(node.produce("t", batch(text, producer_id=5, producer_epoch=epoch, base_sequence=sequence)))

    def test_a_duplicate_gets_its_first_offset(self, node: DataPath) -> None:
        node.create_topic("t")
        for sequence in range(5):
            assert self.produce(node, sequence).base_offset == sequence
        for sequence in range(5):
            again = self.produce(node, sequence)
            assert (again.error_code, again.base_offset) == (0, sequence)
        assert node.partition("t").log.log_end_offset == 5

    def test_a_duplicate_is_counted_and_logged(self, node: DataPath, caplog: pytest.LogCaptureFixture) -> None:
        node.create_topic("t")
        with caplog.at_level("DEBUG", "ottla.replica.partition"):
            for _ in range(3):
                assert self.produce(node, 0).error_code == 0
        assert node.partition("t").counters.duplicates == 2
        assert [record.getMessage() for record in caplog.records].count(
            "t-0: duplicate batch, already at offset 0"
        ) == 2

    def test_only_five_batches_are_remembered(self, node: DataPath) -> None:
        node.create_topic("t")
        for sequence in range(6):
            self.produce(node, sequence)
        assert self.produce(node, 0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_a_gap_is_refused(self, node: DataPath) -> None:
        node.create_topic("t")
        self.produce(node, 0)
        gap = self.produce(node, 2)
        assert (gap.error_code, gap.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
        assert self.produce(node, 1).error_code == ErrorCode.NONE

    def test_an_old_epoch_is_fenced(self, node: DataPath) -> None:
        node.create_topic("t")
        self.produce(node, 0, epoch=3)
        assert self.produce(node, 1, epoch=2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_state_survives_a_restart(self, node: DataPath) -> None:
        node.create_topic("t")
        for sequence in range(3):
            self.produce(node, sequence)
        node.stop()
        node.start()
        # Kafka's snapshot format holds the last batch of each producer, and so that much is remembered.
        assert self.produce(node, 2).base_offset == 2
        assert self.produce(node, 4).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert self.produce(node, 3).base_offset == 3


class TestWaitingForFollowers:
    def test_answered_when_followers_have_fetched(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        timers = node.virtual.scheduler.timers
        waiting = node.produce("t", batch("a", "b"), acks=-1)
        assert isinstance(waiting, Deferred)
        partition = node.partition("t")
        assert partition.high_watermark == 0
        partition.on_follower_fetch(2, fetch_offset=1, log_start_offset=0, now_ms=1)
        node.virtual.scheduler.run()
        assert not waiting.done
        partition.on_follower_fetch(2, fetch_offset=2, log_start_offset=0, now_ms=2)
        node.virtual.scheduler.run()
        answer = waiting.result().responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert not partition.parked_produces
        assert node.virtual.scheduler.timers == timers

    def test_times_out(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        waiting = node.produce("t", batch("a"), acks=-1, timeout_ms=500)
        assert isinstance(waiting, Deferred)
        node.virtual.scheduler.advance(499)
        assert not waiting.done
        node.virtual.scheduler.advance(1)
        answer = waiting.result().responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert not node.partition("t").parked_produces

    def test_acks_one_does_not_wait(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        assert answered(node.produce("t", batch("a"), acks=1)).base_offset == 0

    def test_too_few_in_sync(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2, 3), isr=(1,), min_insync_replicas="2")
        assert answered(node.produce("t", batch("a"), acks=-1)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert node.partition("t").log.log_end_offset == 0
        assert answered(node.produce("t", batch("a"), acks=1)).error_code == ErrorCode.NONE

    def test_min_insync_never_exceeds_the_replicas(self, node: DataPath) -> None:
        node.create_topic("t", min_insync_replicas="2")
        assert answered(node.produce("t", batch("a"), acks=-1)).error_code == ErrorCode.NONE

    def test_a_lost_lead_is_told_at_once(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2))
        waiting = node.produce("t", batch("a"), acks=-1)
        assert isinstance(waiting, Deferred)
        register_another_broker(node)
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2, isr=[2]))
        node.virtual.scheduler.run()
        response = waiting.result()
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # The response names the new leader (KIP-951).
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)
        assert [(point.node_id, point.host, point.port) for point in response.node_endpoints] == [(2, "other", 9)]

    def test_a_deleted_topic_is_told_at_once(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2))
        waiting = node.produce("t", batch("a"), acks=-1)
        assert isinstance(waiting, Deferred)
        node.commit(r.RemoveTopicRecord(topic_id=topic_id))
        node.virtual.scheduler.run()
        answer = waiting.result().responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestWorkers:
    """Large batches that have to be opened go to a worker; what comes after them waits its turn."""

    def large(self, text: str = "x", **options: object) -> memoryview:
        return batch(*[text * 1_000] * 50, **options)

    def test_order_is_kept_behind_a_worker(self, node: DataPath) -> None:
        node.create_topic("t", compression_type="lz4")
        first = node.produce("t", self.large("a"))
        second = node.produce("t", batch("b"))
        third = node.produce("t", self.large("c"))
        assert isinstance(first, Deferred)
        assert isinstance(second, Deferred)
        assert isinstance(third, Deferred)
        assert node.partition("t").log.log_end_offset == 0
        node.virtual.workers.run_one()
        node.virtual.scheduler.run()
        assert (first.done, second.done, third.done) == (True, True, False)
        node.virtual.workers.run_one()
        node.virtual.scheduler.run()
        offsets = [
            waiting.result().responses[0].partition_responses[0].base_offset for waiting in (first, second, third)
        ]
        assert offsets == [0, 50, 51]
        assert node.partition("t").append_queue is None
        assert answered(node.produce("t", batch("d"))).base_offset == 101

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
    def test_a_small_batch_that_swells_is_opened_elsewhere(self, node: DataPath, codec: Codec) -> None:
        node.create_topic("t", cleanup_policy="compact")
        small = batch("a", keys=True, codec=codec)
        assert answered(node.produce("t", small)).base_offset == 0
        bomb = batch("x" * 5_000_000, keys=True, codec=codec)
        assert len(bomb) < 32 * 1024
        waiting = node.produce("t", bomb)
        assert isinstance(waiting, Deferred)
        assert not waiting.done
        node.virtual.workers.run_one()
        node.virtual.scheduler.run()
        assert waiting.result().responses[0].partition_responses[0].base_offset == 1

    def test_the_records_are_packed_again(self, node: DataPath) -> None:
        node.create_topic("t", compression_type="lz4")
        node.produce("t", self.large("a", codec=Codec.GZIP))
        node.virtual.workers.run_all()
        data = node.fetch_one("t", 0)
        assert values(data.records) == ["a" * 1_000] * 50
        assert data.records.read()[22] & 7 == Codec.LZ4  # type: ignore[union-attr]

    def test_a_refused_batch_does_not_stop_the_next(self, node: DataPath) -> None:
        node.create_topic("t", cleanup_policy="compact")
        first = node.produce("t", self.large("a"))
        second = node.produce("t", self.large("b", keys=True))
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        assert isinstance(first, Deferred)
        assert isinstance(second, Deferred)
        assert first.result().responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD
        assert second.result().responses[0].partition_responses[0].base_offset == 0

    def test_a_topic_deleted_meanwhile(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", compression_type="lz4")
        waiting = node.produce("t", self.large())
        node.commit(r.RemoveTopicRecord(topic_id=topic_id))
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        assert isinstance(waiting, Deferred)
        answer = waiting.result().responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_an_answer_that_brings_in_the_next_batch(self, node: DataPath) -> None:
        node.create_topic("t", compression_type="lz4")
        partition = node.partition("t")
        results: list[Deferred[Any]] = []

        def send(records: memoryview) -> Deferred[Any]:
            pending = append(
                partition,
                records,
                required_acks=1,
                now_ms=node.virtual.clock.ms,
                api_version=12,
                validations=node.replicas.validations,
            )
            assert isinstance(pending, Deferred)
            results.append(pending)
            return pending

        send(self.large("a")).when_done(lambda _: send(self.large("c")))
        send(batch("b"))
        node.virtual.workers.run_all()
        assert [pending.result().first_offset for pending in results] == [0, 50, 51]
        assert partition.append_queue is None

    def test_the_queue_is_bounded(self, node: DataPath) -> None:
        node.create_topic("t", compression_type="lz4")
        node.produce("t", self.large())
        small = bytes(batch("b"))
        for _ in range(APPENDS_WAITING_MAX):
            assert isinstance(node.produce("t", memoryview(bytearray(small))), Deferred)
        assert answered(node.produce("t", batch("b"))).error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_a_slow_worker_times_out(self, node: DataPath) -> None:
        node.create_topic("t", compression_type="lz4")
        waiting = node.produce("t", self.large(), timeout_ms=100)
        assert isinstance(waiting, Deferred)
        node.virtual.scheduler.advance(100)
        answer = waiting.result().responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        assert node.partition("t").log.log_end_offset == 0, "the producer has its error, and the batch is dropped"

    def test_a_slow_schema_registry_times_out(self, node: DataPath) -> None:
        node.create_topic("t", confluent_value_schema_validation="true")
        checks = SchemaChecks(node.virtual.world, lambda _: b'["t-value"]')
        node.broker.replicas.validations.use_registry(checks)
        waiting = node.produce("t", batch("\0\0\0\0\1x"), timeout_ms=100)
        assert isinstance(waiting, Deferred)
        node.virtual.scheduler.advance(100)
        answer = waiting.result().responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        assert node.partition("t").log.log_end_offset == 0, "the producer has its error, and the batch is dropped"
        assert answered(node.produce("t", batch("\0\0\0\0\1x"))).base_offset == 0

    def test_a_defect_does_not_stop_the_next(self, node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
        node.create_topic("t", compression_type="lz4")
        sent = [node.produce("t", self.large("a")), node.produce("t", batch("b")), node.produce("t", self.large("c"))]
        defects = [RuntimeError("a defect"), RuntimeError("another defect")]
        original = Partition.append_as_leader

        def append_as_leader(partition: Partition, *arguments: Any, **options: Any) -> Any:
            if defects:
                raise defects.pop()
            return original(partition, *arguments, **options)

        monkeypatch.setattr(Partition, "append_as_leader", append_as_leader)
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        first, second, third = sent
        assert isinstance(first, Deferred)
        assert isinstance(second, Deferred)
        assert isinstance(third, Deferred)
        answers = [sent.result().responses[0].partition_responses[0] for sent in (first, second, third)]
        assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2 + [ErrorCode.NONE]
        assert answers[2].base_offset == 0
        assert node.partition("t").append_queue is None

    def test_acks_zero_closes_the_connection_on_a_later_error(self, node: DataPath) -> None:
        node.create_topic("t", cleanup_policy="compact")
        good, bad = node.produce("t", self.large(keys=True), acks=0), node.produce("t", self.large(), acks=0)
        assert isinstance(good, Deferred)
        assert isinstance(bad, Deferred)
        node.virtual.scheduler.advance(20_000)
        assert not good.done
        node.virtual.workers.run_all()
        assert good.result() is None
        assert isinstance(bad.error, KafkaError)
        assert bad.error.code is ErrorCode.INVALID_RECORD
        with pytest.raises(CloseConnection):
            produce.handler.error_response(ProduceRequest(acks=0), 12, bad.error)


def test_flush_messages_waits_for_the_disk(node: DataPath) -> None:
    node.create_topic("t", flush_messages="1")
    waiting = node.produce("t", batch("a"))
    assert isinstance(waiting, Deferred)
    assert not waiting.done
    node.virtual.workers.run_all()
    node.virtual.scheduler.run()
    response = waiting.result()
    assert isinstance(response, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_what_was_refused_is_not_kept(node: DataPath) -> None:
    """Only the response remains of a batch that cannot be decompressed, without a garbage collection."""
    node.create_topic("t", **{"cleanup.policy": "compact"})
    damaged = bytearray(batch("x" * 1000, keys=True, codec=Codec.ZSTD))
    damaged[-20:] = bytes(20)
    struct.pack_into(">I", damaged, 17, crc32c(damaged[21:]))

    def errors() -> int:
        return sum(isinstance(tracked, BaseException) for tracked in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = errors()
        assert answered(node.produce("t", memoryview(damaged))).error_code == ErrorCode.INVALID_RECORD
        assert errors() == before
    finally:
        gc.enable()


def test_what_comes_again_waits_for_the_disk_too(node: DataPath) -> None:
    """The first copy may not be on disk yet, or its flush may have failed."""
    node.create_topic("t", flush_messages="1")
    records = bytes(batch("a", producer_id=5, producer_epoch=0, base_sequence=0))
    first = node.produce("t", memoryview(bytearray(records)))
    again = node.produce("t", memoryview(bytearray(records)))
    assert isinstance(first, Deferred)
    assert isinstance(again, Deferred)
    assert not again.done
    node.virtual.workers.run_all()
    node.virtual.scheduler.run()
    assert again.result().responses[0].partition_responses[0].base_offset == 0
    # The batch is on disk now, so the duplicate does not wait.
    assert answered(node.produce("t", memoryview(bytearray(records)))).base_offset == 0
    assert node.partition("t").log.log_end_offset == 1
