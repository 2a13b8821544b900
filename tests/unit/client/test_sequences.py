"""Sequence numbers of an idempotent producer, over leaders that know what they have, and sometimes lose it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import AsyncMock

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
    """A leader's view of sequence numbers: it knows what it has, and wants what follows."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.next_sequence: dict[int, int] = {}

    def append(self, records: memoryview) -> ErrorCode:
        header = read_header(records)
        if (header.producer_id, header.base_sequence) in self.entries:
            return ErrorCode.NONE
        if header.base_sequence != self.next_sequence.get(header.producer_id, header.base_sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.next_sequence[header.producer_id] = header.base_sequence + header.record_count
        self.entries.append((header.producer_id, header.base_sequence))
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
        for one in topic.partition_data:
            assert isinstance(one.records, memoryview)
            assert read_header(one.records).producer_id >= 0
            code = self.script(number, one.index)
            if code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
                code = self.logs[one.index].append(one.records) or code
            answers.append(PartitionProduceResponse(index=one.index, error_code=code, base_offset=number))
        await self.answering.wait()
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=answers)])


def run_sequenced(script: Script, work: Callable[[Sending, SequencedConnection], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
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

    asyncio.run(whole())


def test_a_lost_batch_makes_no_duplicate_of_another_whose_answer_is_missing() -> None:
    async def work(sending: Sending, connection: SequencedConnection) -> None:
        unheard, bad = sending.send(b"x", 0), sending.send(b"x", 1)
        assert await failure(bad) == ErrorCode.INVALID_RECORD
        await unheard
        assert connection.logs[0].entries == [(5, 0)]
        # And the next one goes on, with a producer id that has no hole.
        await sending.send(b"x", 1)
        assert connection.logs[1].entries == [(6, 0)]

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
        for each in good:
            await each
        assert connection.logs[0].entries == [(5, 0), (6, 0), (6, 1)]

    run_sequenced(lambda number, _: ErrorCode.INVALID_RECORD if number == 1 else ErrorCode.NONE, work)


def test_a_lost_batch_without_a_waiter_leaves_no_hole_either() -> None:
    async def work(sending: Sending, connection: SequencedConnection) -> None:
        connection.answering.clear()
        bad = sending.send(b"x", 0)
        await until(lambda: len(connection.requests) == 1)
        bad.batch.done.cancel()
        connection.answering.set()
        await sending.send(b"x", 0)
        assert connection.logs[0].entries == [(6, 0)]

    run_sequenced(lambda number, _: ErrorCode.NONE if number else ErrorCode.INVALID_RECORD, work)


def test_a_leader_that_lost_what_it_knew_gets_what_follows() -> None:
    async def work(sending: Sending, connection: SequencedConnection) -> None:
        await sending.send(b"x", 0)
        await sending.send(b"x", 0)
        # As after an unclean election: the second one was acknowledged, and is gone.
        connection.logs[0].next_sequence[5] = 1
        await sending.send(b"x", 0)
        assert connection.logs[0].entries == [(5, 0), (5, 1), (6, 0)]

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
        assert connection.logs[0].entries == [(5, 0), (6, 0), (6, 1)]

    run_sequenced(lambda number, _: ErrorCode.UNKNOWN_PRODUCER_ID if 0 < number < 3 else ErrorCode.NONE, work)
