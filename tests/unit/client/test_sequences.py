"""Sequence numbers of an idempotent producer, with leaders that check them and sometimes lose records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import AsyncMock

import pytest

from ottla.client.errors import ConnectionLost
from ottla.client.producer.sequences import ProducerIdentity
from ottla.client.producer.settings import ProducerSettings
from ottla.model.errors import ErrorCode
from ottla.records.header import read_header
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.test_sender import Cluster, Connection, Script, Sending, accepts, failure, until


class SequencedLog:
    """A leader's view of one producer: it recognises duplicates and accepts only the next sequence number."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.epoch = -1
        self.next_sequence: dict[int, int] = {}

    def append(self, records: memoryview) -> ErrorCode:
        header = read_header(records)
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if (epoch, sequence) in self.entries:
            return ErrorCode.NONE
        first = sequence if self.epoch < 0 else 0
        if sequence != self.next_sequence.get(epoch, first):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.epoch = epoch
        self.next_sequence[epoch] = sequence + header.record_count
        self.entries.append((epoch, sequence))
        return ErrorCode.NONE


class SequencedConnection(Connection):
    """Refused batches are not in the log. Batches whose connection is cut are, although the client gets no answer."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.logs = {partition: SequencedLog() for partition in range(3)}

    async def post(self, request: ProduceRequest, **_: Any) -> ProduceResponse:
        (topic,) = request.topic_data
        number = len(self.requests)
        self.requests.append({partition.index: 0 for partition in topic.partition_data})
        answers = []
        for partition in topic.partition_data:
            assert isinstance(partition.records, memoryview)
            assert read_header(partition.records).producer_id >= 0
            code = self.script(number, partition.index)
            if code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
                code = self.logs[partition.index].append(partition.records) or code
            answers.append(PartitionProduceResponse(index=partition.index, error_code=code, base_offset=number))
        await self.answering.wait()
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=answers)])


def run_sequenced(script: Script, work: Callable[[Sending, SequencedConnection], Coroutine[Any, Any, None]]) -> None:
    async def scenario() -> None:
        connection = SequencedConnection(script)
        cluster = Cluster(connection)
        sending = Sending(cluster, ProducerSettings(linger_ms=0, batch_size=100))
        numbers = iter(range(6, 1_000))
        sending.sender._identify = identify = AsyncMock()  # type: ignore[method-assign]
        identify.side_effect = lambda: sending.sender._identity.set(next(numbers), 0)
        await sending.sender.start()
        try:
            async with asyncio.timeout(60):
                await work(sending, connection)
        finally:
            await sending.sender.stop()

    asyncio.run(scenario())


def test_a_lost_batch_makes_no_duplicate_of_another_whose_answer_is_missing() -> None:
    async def work(sending: Sending, connection: SequencedConnection) -> None:
        unheard, bad = sending.send(b"x", 0), sending.send(b"x", 1)
        assert await failure(bad) == ErrorCode.INVALID_RECORD
        await unheard
        assert connection.logs[0].entries == [(0, 0)]
        # And the next one goes on, with a producer id that has no hole.
        await sending.send(b"x", 1)
        assert connection.logs[1].entries == [(1, 0)]

    def script(number: int, partition: int) -> ErrorCode:
        if number:
            return ErrorCode.NONE
        return ErrorCode.INVALID_RECORD if partition else ErrorCode.REQUEST_TIMED_OUT

    run_sequenced(script, work)


def test_a_lost_batch_takes_none_with_it_that_follows() -> None:
    async def work(sending: Sending, connection: SequencedConnection) -> None:
        await sending.send(bytes(60), 0)
        connection.answering.clear()
        bad, *good = [sending.send(bytes(60), 0) for _ in range(3)]
        await until(lambda: len(connection.requests) == 4)
        connection.answering.set()
        assert await failure(bad) == ErrorCode.INVALID_RECORD
        for delivery in good:
            await delivery
        assert connection.logs[0].entries == [(0, 0), (1, 0), (1, 1)]

    run_sequenced(lambda number, _: ErrorCode.INVALID_RECORD if number == 1 else ErrorCode.NONE, work)


def test_a_lost_batch_without_a_waiter_leaves_no_hole_either() -> None:
    async def work(sending: Sending, connection: SequencedConnection) -> None:
        connection.answering.clear()
        bad = sending.send(b"x", 0)
        await until(lambda: len(connection.requests) == 1)
        bad.batch.done.cancel()
        connection.answering.set()
        await sending.send(b"x", 0)
        assert connection.logs[0].entries == [(1, 0)]

    run_sequenced(lambda number, _: ErrorCode.NONE if number else ErrorCode.INVALID_RECORD, work)


def test_a_leader_that_lost_what_it_knew_gets_what_follows() -> None:
    async def work(sending: Sending, connection: SequencedConnection) -> None:
        await sending.send(b"x", 0)
        await sending.send(b"x", 0)
        # As after an unclean election: the second one was acknowledged, and is gone.
        connection.logs[0].next_sequence[0] = 1
        await sending.send(b"x", 0)
        assert connection.logs[0].entries == [(0, 0), (0, 1), (1, 0)]

    run_sequenced(accepts, work)


def test_a_leader_that_does_not_know_the_producer_is_told_of_a_new_one() -> None:
    async def work(sending: Sending, connection: SequencedConnection) -> None:
        await sending.send(b"x", 0)
        connection.answering.clear()
        deliveries = [sending.send(bytes(60), 0) for _ in range(2)]
        await until(lambda: len(connection.requests) == 3)
        connection.answering.set()
        for delivery in deliveries:
            await delivery
        assert connection.logs[0].entries == [(0, 0), (1, 0), (1, 1)]

    run_sequenced(lambda number, _: ErrorCode.UNKNOWN_PRODUCER_ID if 0 < number < 3 else ErrorCode.NONE, work)


def test_a_failed_batch_that_arrives_late_is_not_written_behind_its_successors() -> None:
    late: list[memoryview] = []

    async def work(sending: Sending, connection: SequencedConnection) -> None:
        await sending.send(b"1", 0)
        post = connection.post

        async def post_late(request: ProduceRequest, **_: Any) -> ProduceResponse:
            # The bytes are on their way, and the client has given up.
            late.append(memoryview(bytes(request.topic_data[0].partition_data[0].records or b"")))
            connection.post = post  # type: ignore[method-assign]
            lost.batch.created -= 1_000
            raise ConnectionLost("no answer in time")

        connection.post = post_late  # type: ignore[method-assign]
        lost = sending.send(b"2", 0)
        with pytest.raises(ConnectionLost):
            await lost
        await sending.send(b"3", 0)
        assert connection.logs[0].append(late[0]) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert connection.logs[0].entries == [(0, 0), (1, 0)]

    run_sequenced(accepts, work)


def test_after_the_last_epoch_there_is_a_new_producer_id() -> None:
    identity = ProducerIdentity()
    identity.set(5, 0x7FFE)
    identity.raise_epoch()
    assert identity.pair == (5, 0x7FFF)
    identity.raise_epoch()
    assert not identity.known
