"""Batches whose records have to be decoded: what the loop's thread does itself, and how workers are shared."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import produce
from ottla.broker.context import ConnectionContext, RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.records import iterate, validate_slow
from ottla.records.build import assemble_batch
from ottla.records.compression import Codec
from ottla.records.header import BatchHeader
from ottla.records.record import append_contents, record_content
from ottla.replica import validations
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.data_path import LISTENER, DataPath, batch


def many(
    count: int, *, now_ms: int, codec: Codec = Codec.NONE, max_timestamp: int | None = None, value: bytes = b""
) -> memoryview:
    """A batch of `count` records with keys."""
    payload = bytearray()
    append_contents(payload, [record_content(b"k", value)] * count, first_offset_delta=0, timestamp_delta=0)
    return memoryview(
        assemble_batch(
            payload,
            base_offset=0,
            last_offset_delta=count - 1,
            record_count=count,
            attributes=codec,
            base_timestamp=now_ms,
            max_timestamp=now_ms if max_timestamp is None else max_timestamp,
        )
    )


def produce_all(node: DataPath, topic: str, batches: list[tuple[int, memoryview]], timeout_ms: int = 1_000) -> Any:
    data = [PartitionProduceData(index=index, records=records) for index, records in batches]
    request = ProduceRequest(
        acks=1, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    return node.call(produce, request, 12)


def answer_of(waiting: Any) -> PartitionProduceResponse:
    assert isinstance(waiting, Deferred)
    answer: PartitionProduceResponse = waiting.result().responses[0].partition_responses[0]
    return answer


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The counts of the batches whose records were checked."""
    counts: list[int] = []
    original = validate_slow._check_records

    def check(payload: memoryview, header: BatchHeader, *rest: Any) -> Any:
        counts.append(header.record_count)
        return original(payload, header, *rest)

    monkeypatch.setattr(validate_slow, "_check_records", check)
    return counts


class TestLoop:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    def test_an_implausible_header_is_looked_into_by_a_worker(
        self, node: DataPath, decoded: list[int], codec: Codec
    ) -> None:
        """The topic needs no decoding, but a largest timestamp below the base timestamp does."""
        node.create_topic("t")
        now_ms = node.virtual.clock.ms
        waiting = node.produce("t", many(10_000, now_ms=now_ms, codec=codec, max_timestamp=now_ms - 1))
        assert decoded == []
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        assert answer_of(waiting).base_offset == 0
        assert node.partition("t").log.log_end_offset == 10_000

    def test_a_claim_that_cannot_be_true_needs_no_worker(
        self, node: DataPath, decoded: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(iterate, "decompress", lambda *_, **__: pytest.fail("the batch was decompressed"))
        node.create_topic("t")
        node.create_topic("c", cleanup_policy="compact")
        payload = b"\x0c\0\0\0\1\1\0" * 1_000_000
        bomb = assemble_batch(
            payload,
            base_offset=0,
            last_offset_delta=999_999,
            record_count=1_000_000,
            attributes=Codec.ZSTD,
            base_timestamp=0,
            max_timestamp=0,
        )
        assert len(bomb) < 1_000
        for topic in ("t", "c"):
            refused = node.produce(topic, memoryview(bytearray(bomb)))
            assert isinstance(refused, PartitionProduceResponse)
            assert refused.error_code == ErrorCode.INVALID_RECORD
        assert decoded == []
        assert not node.virtual.workers.tasks

    def test_the_batches_of_one_turn_have_a_common_bound(self, node: DataPath, decoded: list[int]) -> None:
        """Many small batches in one request, also for the same partition, are as much work as a large one."""
        node.create_topic("t", 1, cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        waiting = produce_all(node, "t", [(0, many(900, now_ms=now_ms)) for _ in range(100)])
        assert 0 < sum(decoded) <= validations.LOOP_WORK_MAX
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        answers = waiting.result().responses[0].partition_responses
        assert [answer.base_offset for answer in answers] == list(range(0, 90_000, 900))
        # The next turn has its own share.
        assert isinstance(node.produce("t", many(900, now_ms=now_ms)), PartitionProduceResponse)


class TestWorkers:
    @pytest.fixture(autouse=True)
    def short_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(validate_slow, "STEP_RECORDS", 100)
        monkeypatch.setattr(validate_slow, "STEP_INSPECTED", 100)
        monkeypatch.setattr(validations, "LOOP_RECORDS_MAX", 10)

    def test_small_batches_do_not_wait_for_large_ones(self, node: DataPath) -> None:
        node.create_topic("t", 17, cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        produce_all(node, "t", [(index, many(2_000, now_ms=now_ms, codec=Codec.ZSTD)) for index in range(16)])
        small = node.produce("t", many(50, now_ms=now_ms), index=16)
        assert isinstance(small, Deferred)
        for _ in range(17):
            node.virtual.workers.run_one()
        node.virtual.scheduler.run()
        assert answer_of(small).error_code == ErrorCode.NONE
        assert [node.partition("t", index).log.log_end_offset for index in range(16)] == [0] * 16
        node.virtual.workers.run_all()
        assert [node.partition("t", index).log.log_end_offset for index in range(16)] == [2_000] * 16

    def test_the_decompressed_bytes_have_a_common_bound(self, node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(validations, "LARGE_BATCHES_BYTES_MAX", 5 * 1024 * 1024)
        node.replicas.validations = validations.Validations(node.virtual.world)
        node.create_topic("t", 9, cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        # Two MiB each, and steps enough to be in progress at the same time.
        bombs = [(index, many(500, now_ms=now_ms, codec=Codec.LZ4, value=b"x" * 4_000)) for index in range(8)]
        produce_all(node, "t", bombs)
        assert len(node.virtual.workers.tasks) < 4
        small = node.produce("t", many(50, now_ms=now_ms, codec=Codec.LZ4), index=8)
        for _ in range(4):
            assert len(node.virtual.workers.tasks) <= 4
            node.virtual.workers.run_one()
        node.virtual.scheduler.run()
        assert answer_of(small).error_code == ErrorCode.NONE, "small batches have room of their own"
        node.virtual.workers.run_all()
        assert [node.partition("t", index).log.log_end_offset for index in range(8)] == [500] * 8

    def test_a_batch_is_dropped_when_its_request_has_timed_out(self, node: DataPath, decoded: list[int]) -> None:
        node.create_topic("t", cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        waiting = node.produce("t", many(2_000, now_ms=now_ms, codec=Codec.ZSTD), timeout_ms=100)
        behind = node.produce("t", batch("b", keys=True), timeout_ms=60_000)
        node.virtual.workers.run_one()
        node.virtual.scheduler.advance(100)
        assert answer_of(waiting).error_code == ErrorCode.REQUEST_TIMED_OUT
        node.virtual.workers.run_one()
        node.virtual.scheduler.run()
        assert not node.virtual.workers.tasks
        assert answer_of(behind).base_offset == 0
        assert decoded == [2_000, 1]

    def test_a_long_timeout_does_not_keep_a_worker(self, node: DataPath) -> None:
        node.create_topic("t", cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        waiting = node.produce("t", many(2_000, now_ms=now_ms, codec=Codec.ZSTD), timeout_ms=(1 << 31) - 1)
        node.virtual.scheduler.advance(validations.VALIDATION_MS_MAX)
        node.virtual.workers.run_one()
        node.virtual.scheduler.run()
        assert answer_of(waiting).error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_no_step_is_submitted_after_the_broker_has_stopped(self, node: DataPath) -> None:
        node.create_topic("t", cleanup_policy="compact")
        waiting = node.produce("t", many(2_000, now_ms=node.virtual.clock.ms, codec=Codec.ZSTD))
        node.replicas.close()
        node.virtual.workers.run_one()
        node.virtual.scheduler.run()
        assert not node.virtual.workers.tasks
        assert answer_of(waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class Client:
    """A connection of its own."""

    def __init__(self, node: DataPath) -> None:
        self._node = node
        self.connection = ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=50_001)

    def produce(
        self, topic: str, batches: list[tuple[int, memoryview]], *, acks: int = 1, timeout_ms: int = 1_000
    ) -> Any:
        data = [PartitionProduceData(index=index, records=records) for index, records in batches]
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        )
        now_ms = self._node.virtual.clock.now_ms()
        context = RequestContext(request.API_KEY, 12, 1, "test", self.connection, now_ms)
        return produce.API.handle(request, context, self._node.broker)


class TestClients:
    @pytest.fixture(autouse=True)
    def short_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(validate_slow, "STEP_RECORDS", 100)
        monkeypatch.setattr(validate_slow, "STEP_INSPECTED", 100)
        monkeypatch.setattr(validations, "LOOP_RECORDS_MAX", 10)

    def test_a_client_with_one_batch_gets_as_much_as_one_with_many(self, node: DataPath) -> None:
        node.create_topic("t", 51, cleanup_policy="compact")
        now_ms = node.virtual.clock.ms

        def steps_for_one() -> int:
            honest = Client(node).produce("t", [(50, many(1_000, now_ms=now_ms))])
            steps = 0
            while not honest.done:
                node.virtual.workers.run_one()
                node.virtual.scheduler.run()
                steps += 1
            assert answer_of(honest).error_code == ErrorCode.NONE
            return steps

        alone = steps_for_one()
        Client(node).produce("t", [(index, many(5_000, now_ms=now_ms)) for index in range(50)])
        assert steps_for_one() <= 2 * alone + validations.STEPS_SUBMITTED_MAX
        assert [node.partition("t", index).log.log_end_offset for index in range(50)] == [0] * 50
        node.virtual.workers.run_all()
        assert [node.partition("t", index).log.log_end_offset for index in range(50)] == [5_000] * 50

    def test_room_is_given_to_the_clients_in_turn(self, node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(validations, "LARGE_BATCHES_BYTES_MAX", 1)
        monkeypatch.setattr(validations, "SMALL_BATCH_BYTES_MAX", 1)
        node.replicas.validations = validations.Validations(node.virtual.world)
        node.create_topic("t", 10, cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        greedy, modest = Client(node), Client(node)
        greedy.produce("t", [(index, many(200, now_ms=now_ms, codec=Codec.LZ4)) for index in range(9)])
        modest.produce("t", [(9, many(200, now_ms=now_ms, codec=Codec.LZ4))])
        while not node.partition("t", 9).log.log_end_offset:
            node.virtual.workers.run_one()
        assert sum(node.partition("t", index).log.log_end_offset for index in range(9)) <= 2 * 200

    @pytest.mark.parametrize("acks", [-1, 0, 1])
    def test_the_batches_of_a_client_that_has_gone_are_dropped(self, node: DataPath, acks: int) -> None:
        """Except with acks=0, where a producer does not wait for an answer before it disconnects."""
        node.create_topic("t", 9, cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        client, other = Client(node), Client(node)
        client.produce("t", [(index % 8, many(2_000, now_ms=now_ms)) for index in range(16)], acks=acks)
        behind = other.produce("t", [(0, many(200, now_ms=now_ms))])
        node.virtual.workers.run_one()
        client.connection.is_gone = True
        steps = 0
        while node.virtual.workers.tasks:
            node.virtual.workers.run_one()
            node.virtual.scheduler.run()
            steps += 1
        assert answer_of(behind).error_code == ErrorCode.NONE
        ends = [node.partition("t", index).log.log_end_offset for index in range(8)]
        if acks:
            assert ends == [200, *[0] * 7]
            assert steps < 20
        else:
            assert ends == [4_200, *[4_000] * 7]

    def test_the_timeout_begins_when_the_batch_arrives(self, node: DataPath, decoded: list[int]) -> None:
        node.create_topic("t", cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        client = Client(node)
        first = client.produce("t", [(0, many(2_000, now_ms=now_ms))], timeout_ms=10_000)
        behind = client.produce("t", [(0, many(2_000, now_ms=now_ms))], timeout_ms=100)
        node.virtual.scheduler.advance(100)
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        assert answer_of(first).error_code == ErrorCode.NONE
        assert answer_of(behind).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert decoded == [2_000]
        assert node.partition("t").log.log_end_offset == 2_000

    def test_the_bytes_that_wait_have_a_common_bound(self, node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
        node.create_topic("t", 3, cleanup_policy="compact")
        now_ms = node.virtual.clock.ms
        records = many(1_000, now_ms=now_ms)
        monkeypatch.setattr(validations, "QUEUED_BYTES_MAX", 2 * len(records))
        batches = [(index, memoryview(bytearray(records))) for index in range(3)]
        waiting = Client(node).produce("t", batches)
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        answers = waiting.result().responses[0].partition_responses
        assert [answer.error_code for answer in answers] == [0, 0, ErrorCode.REQUEST_TIMED_OUT]
        later = Client(node).produce("t", batches[2:])
        node.virtual.workers.run_all()
        node.virtual.scheduler.run()
        assert answer_of(later).error_code == ErrorCode.NONE
