"""Batches that are too large for their topic: they are split until they fit, and nothing else about them changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.client.producer.batch import EncodedRecords, ProducerBatch, RecordMetadata
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.splitting import split_batch
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.header import HEADER_SIZE, read_header
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.record import Record
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.test_sender import Cluster, Connection, Sending, failure

ONE = TopicPartition("t", 0)


class SmallLog(Connection):
    """A leader that accepts batches up to a size, in the order of their sequence numbers."""

    def __init__(self, size_max: int) -> None:
        super().__init__(lambda *_: ErrorCode.NONE)
        self.size_max = size_max
        self.values: list[bytes] = []
        self.timestamps: list[int] = []
        self.epoch, self.next_sequence, self.base_offset = 0, 0, -1
        self.refused = 0
        # Answers to the first requests, instead of the log's own.
        self.first_answers: list[ErrorCode] = []

    async def post(self, request: ProduceRequest, **_: Any) -> ProduceResponse:
        (topic,) = request.topic_data
        (partition_data,) = topic.partition_data
        assert isinstance(partition_data.records, memoryview)
        code = self.first_answers.pop(0) if self.first_answers else self._append(partition_data.records)
        answer = PartitionProduceResponse(index=partition_data.index, error_code=code, base_offset=self.base_offset)
        await self.answering.wait()
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answer])])

    def _append(self, records: memoryview) -> ErrorCode:
        header = read_header(records)
        if len(records) > self.size_max:
            self.refused += 1
            return ErrorCode.MESSAGE_TOO_LARGE
        if header.producer_id >= 0 and header.producer_epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > self.epoch and header.base_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if header.producer_epoch > self.epoch:
            self.epoch, self.next_sequence = header.producer_epoch, 0
        if header.producer_id >= 0 and header.base_sequence != self.next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.next_sequence += header.record_count
        self.base_offset = len(self.values)
        for batch in iterate_batches(bytes(records)):
            for record in iterate_records(batch):
                self.values.append(bytes(record.value or b""))
                self.timestamps.append(record.timestamp)
        return ErrorCode.NONE


def run(log: SmallLog, work: Callable[[Sending], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def scenario() -> None:
        sending = Sending(Cluster(log), ProducerSettings(**{"linger_ms": 5_000, "batch_size": 20_000, **settings}))
        sending.sender._identity.set(7, 0)
        await sending.sender.start()
        sending.sender.flushing += 1
        try:
            async with asyncio.timeout(60):
                await work(sending)
        finally:
            await sending.sender.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_batch_is_split_until_its_parts_fit(codec: Codec, idempotent: bool) -> None:
    values = [bytes([number]) * (10 + 37 * number % 400) for number in range(60)]

    async def work(sending: Sending) -> None:
        deliveries = [sending.send(value, 0) for value in values]
        # One delivery is awaited while its batch is split, the others afterwards.
        places = [await delivery for delivery in deliveries]
        assert [place.offset for place in places] == list(range(60))
        assert all(
            delivery.done and delivery.result() == place for delivery, place in zip(deliveries, places, strict=True)
        )
        assert not sending.batches.unfinished
        assert sending.batches.available_bytes == sending.batches._buffer_bytes
        assert sending.sender.measures.split_batches == log.refused > 1

    # Compressed, these values are small.
    log = SmallLog(1_000 if codec is Codec.NONE else 250)
    run(log, work, compression=codec, idempotent=idempotent)
    assert log.values == values


def test_batches_in_flight_behind_a_split_one_keep_their_places() -> None:
    async def work(sending: Sending) -> None:
        await sending.send(b"first", 0)
        log.answering.clear()
        large = [sending.send(bytes([number]) * 150, 0) for number in range(4)]
        sending.batches.close_batch(sending.batches.queues[ONE])
        await asyncio.sleep(0)
        small = [sending.send(bytes([number]) * 20, 0) for number in range(4, 8)]
        sending.batches.close_batch(sending.batches.queues[ONE])
        while sending.batches.queues[ONE].in_flight < 2:
            await asyncio.sleep(0)
        log.answering.set()
        assert [(await delivery).offset for delivery in large + small] == list(range(1, 9))

    log = SmallLog(500)
    run(log, work)
    assert [value[:1] for value in log.values[1:]] == [bytes([number]) for number in range(8)]


@pytest.mark.parametrize("idempotent", [True, False])
def test_callbacks_are_called_in_order_with_the_offset_of_their_record(idempotent: bool) -> None:
    called: list[tuple[int, ErrorCode | None]] = []

    def on_delivery(metadata: RecordMetadata, error: Exception | None) -> None:
        called.append((metadata.offset, error.code if isinstance(error, KafkaError) else None))

    async def work(sending: Sending) -> None:
        deliveries = [sending.send(bytes(900 if number == 5 else 100), 0, on_delivery) for number in range(10)]
        assert await failure(deliveries[5]) == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(
            KafkaError, match=r"t-0: a record with \d+ bytes before compression is larger than max\.mess"
        ):
            deliveries[5].result()
        for number, delivery in enumerate(deliveries):
            if number != 5:
                assert (await delivery).offset == number - (number > 5)

    log = SmallLog(600)
    run(log, work, idempotent=idempotent)
    assert called == [(number, None) for number in range(5)] + [(-1, ErrorCode.MESSAGE_TOO_LARGE)] + [
        (number, None) for number in range(5, 9)
    ]


@pytest.mark.parametrize("too_large", [{0}, {5}, {39}, {5, 6, 20}, set(range(0, 40, 3))])
def test_records_beside_one_that_is_too_large_are_written_in_order(too_large: set[int]) -> None:
    """Its failure raises the epoch, and the parts behind it have numbers of the old one."""

    async def work(sending: Sending) -> None:
        await sending.send(b"first", 0)
        deliveries = [sending.send(bytes([number]) * (900 if number in too_large else 100), 0) for number in range(40)]
        sending.batches.close_batch(sending.batches.queues[ONE])
        behind = [sending.send(bytes([number]) * 100, 0) for number in range(40, 44)]
        for number, delivery in enumerate(deliveries):
            if number in too_large:
                assert await failure(delivery) == ErrorCode.MESSAGE_TOO_LARGE
            else:
                assert log.values[(await delivery).offset] == bytes([number]) * 100
        for delivery in behind:
            await delivery

    log = SmallLog(600)
    run(log, work)
    assert [value[0] for value in log.values[1:]] == [number for number in range(44) if number not in too_large]


def test_a_part_of_an_old_epoch_that_may_be_in_the_log_is_not_written_again() -> None:
    """The leader does not know duplicates of an old epoch."""

    async def work(sending: Sending) -> None:
        await sending.send(b"first", 0)
        log.first_answers = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_PRODUCER_EPOCH]
        unknown = sending.send(b"unknown", 0)
        sending.batches.close_batch(sending.batches.queues[ONE])
        while log.first_answers != [ErrorCode.INVALID_PRODUCER_EPOCH]:
            await asyncio.sleep(0)
        # A batch of another partition has failed.
        sending.sender._identity.raise_epoch()
        assert await failure(unknown) == ErrorCode.INVALID_PRODUCER_EPOCH

    log = SmallLog(600)
    run(log, work)
    assert log.values == [b"first"]


def test_a_single_record_that_is_too_large_fails_at_once() -> None:
    async def work(sending: Sending) -> None:
        assert await failure(sending.send(bytes(900), 0)) == ErrorCode.MESSAGE_TOO_LARGE
        assert log.refused == 1

    log = SmallLog(600)
    run(log, work)


@pytest.mark.parametrize(
    ("answer", "is_split"), [(ErrorCode.LEADER_NOT_AVAILABLE, True), (ErrorCode.REQUEST_TIMED_OUT, False)]
)
def test_a_batch_that_may_be_in_the_log_is_not_split(answer: ErrorCode, is_split: bool) -> None:
    """Its parts would be no duplicates to the leader, and the records would be there twice."""

    async def work(sending: Sending) -> None:
        log.first_answers = [answer]
        first, _ = sending.send(bytes(300), 0), sending.send(bytes(300), 0)
        if is_split:
            await first
        else:
            assert await failure(first) == ErrorCode.MESSAGE_TOO_LARGE
            assert not log.values

    log = SmallLog(500)
    run(log, work)


def test_an_encoded_batch_stays_whole() -> None:
    """Its caller counts on consecutive offsets."""

    async def work(sending: Sending) -> None:
        encoded = build_batch([Record(value=bytes(300), timestamp=1), Record(value=bytes(300), timestamp=2)])
        done = sending.batches.append_encoded(ONE, EncodedRecords(bytes(encoded[HEADER_SIZE:]), 2, 1, 2))
        with pytest.raises(KafkaError, match="a batch of 2 records"):
            await done

    run(SmallLog(500), work)


def test_the_parts_have_all_that_the_batch_had() -> None:
    async def scenario() -> None:
        done = asyncio.get_running_loop().create_future()
        batch = ProducerBatch(ONE, limit=10_000, codec=Codec.NONE, level=None, created=5.0, done=done)
        times = [100, 90, 300, 200]
        for number, time in enumerate(times):
            batch.append(b"k", bytes([number]) * 50, [("h", b"v"), ("n", None)], time)
        batch.producer_id, batch.epoch, batch.base_sequence, batch.buffered = 7, 3, 0x7FFFFFFE, 1_000
        batch.attempts = 2
        first, second = split_batch(batch)
        assert (first.count, second.count) == (2, 2)
        assert (first.base_sequence, second.base_sequence) == (0x7FFFFFFE, 0)
        assert (first.max_timestamp, second.max_timestamp) == (100, 300)
        assert first.buffered + second.buffered == 1_000
        assert (second.producer, second.created, second.attempts) == ((7, 3), 5.0, 2)
        assert batch.order < first.order < second.order < (batch.order[0] + 1,)
        encoded = bytes(second.encode(is_transactional=False))
        (read,) = iterate_batches(encoded)
        assert [(r.timestamp, r.key, r.headers, r.offset) for r in iterate_records(read)] == [
            (300, b"k", [("h", b"v"), ("n", None)], 0),
            (200, b"k", [("h", b"v"), ("n", None)], 1),
        ]

    asyncio.run(scenario())
