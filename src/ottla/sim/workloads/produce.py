"""A producer: sends batches to a partition, several of them in flight, each until it is acknowledged.

An idempotent producer numbers its batches, so that a batch that is sent again is written once and in order. A producer
that is not idempotent sends again as well, and may write duplicates. With acks=1 an acknowledged record may be lost,
because that setting guarantees less.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.sim.history import Sent
from ottla.sim.process import EPOCH_MS
from ottla.sim.tasks import Task, sleep, wait
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.peers import PeerUnreachable

__all__ = ["Produce"]

# The broker misses an earlier batch of this producer.
SEQUENCE_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
GIVEN_UP = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE})


@dataclass(slots=True)
class _Batch:
    records: list[Sent]
    sequence: int
    is_acknowledged: bool = False
    leader_epoch: int = -1
    """The epoch of the leader that it was last sent to, as the client knew it."""


@dataclass(slots=True)
class _Window:
    """The unacknowledged batches of one partition, oldest first, and the next sequence number."""

    batches: list[_Batch] = field(default_factory=list)
    sequence: int = 0


class Produce(Workload):
    def __init__(
        self,
        stage: Stage,
        name: str,
        partition: TopicPartition,
        *,
        acks: int,
        is_idempotent: bool,
        in_flight: int,
        pause_seconds: float,
        records_max: int,
        value_bytes: int = 20,
    ) -> None:
        super().__init__(stage, name)
        self._partition = partition
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._in_flight = in_flight
        self._pause_seconds = pause_seconds
        self._records_max = records_max
        self._padding = bytes(value_bytes)
        self._window = _Window()
        self._producer_id = self._producer_epoch = -1
        # The newest leader epoch in which a batch was acknowledged.
        self._leader_epoch = -1
        self._session = 0
        self._number = 0

    async def run(self) -> None:
        window = self._window
        if self._is_idempotent:
            await self._begin_session()
        while not self.stage.is_ending or window.batches:
            if not self.stage.is_ending:
                for _ in range(self.random.randint(1, self._in_flight) - len(window.batches)):
                    self._add_batch()
                # A short pause makes a burst of batches, a long one sends them separately.
                await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))
            if window.batches:
                await self._send_window()

    async def _begin_session(self) -> None:
        """Gets a new producer id. Order and freedom from duplicates are guaranteed per producer id."""
        while True:
            try:
                response = await self.client.ask_any(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), InitProducerIdResponse
                )
            except PeerUnreachable:
                await self.client.back_off()
                continue
            if response.error_code:
                await self.client.back_off()
                continue
            self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
            self._session += 1
            self._window.sequence = 0
            return

    def _add_batch(self) -> None:
        records = []
        for _ in range(self.random.randint(1, self._records_max)):
            self._number += 1
            sent = Sent(
                partition=self._partition,
                producer=self.name,
                number=self._number,
                acks=self._acks,
                is_idempotent=self._is_idempotent,
                sent_us=self.now_us,
                session=self._session,
            )
            records.append(sent)
        self.history.sent.extend(records)
        self._window.batches.append(_Batch(records, self._window.sequence))
        self._window.sequence += len(records)

    async def _send_window(self) -> None:
        """Sends all unacknowledged batches in order and waits for every answer."""
        client, partition = self.client, self._partition
        leader = await client.leader(partition)
        if leader is None or partition.topic not in client.topic_ids:
            await client.back_off()
            return
        answers: list[Deferred[ErrorCode | None]] = []
        batches = list(self._window.batches)
        for batch in batches:
            answered: Deferred[ErrorCode | None] = Deferred()
            answers.append(answered)
            Task(
                client.process,
                self.name,
                self._send(batch, answered),
                self.stage.cluster.report_defect,
            )
        errors = [await wait(answered) for answered in answers]
        self._window.batches = [batch for batch in batches if not batch.is_acknowledged] + self._window.batches[
            len(batches) :
        ]
        failures = [(error, batch) for error, batch in zip(errors, batches, strict=True) if error is not ErrorCode.NONE]
        if failures:
            await self._recover(*failures[0])

    async def _recover(self, error: ErrorCode | None, batch: _Batch) -> None:
        """After the first failure of a window: looks up the leader again, or begins with a new producer id."""
        self.client.forget_leader(self._partition)
        if error in SEQUENCE_LOST and self._is_idempotent:
            # The batches of the window are dropped: it is unknown whether they were written, and nothing guarantees it.
            self._window.batches.clear()
            # A leader that is cut off from other nodes and has not heard of its successor misses the batches that the
            # successor acknowledged. This client may return to it; a client that compares epochs (KIP-320) does not.
            if self._acks == -1 and batch.leader_epoch >= self._leader_epoch:
                self.history.report_violation(
                    "no gap in producer sequences", f"{self.name} got {error!r}, so one of its batches is missing"
                )
            await self._begin_session()
        elif error in GIVEN_UP:
            self.history.report_violation("producer requests are valid", f"{self.name} got {error!r}")
            self._window.batches.clear()
        else:
            await self.client.back_off()

    async def _send(self, batch: _Batch, answered: Deferred[ErrorCode | None]) -> None:
        try:
            answered.resolve(await self._ask(batch))
        except PeerUnreachable:
            answered.resolve(None)

    async def _ask(self, batch: _Batch) -> ErrorCode:
        client, partition = self.client, self._partition
        leader = await client.leader(partition)
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        batch.leader_epoch = leader[1]
        now_ms = EPOCH_MS + self.now_us // 1000
        data = build_batch(
            [Record(timestamp=now_ms, key=None, value=sent.value + self._padding) for sent in batch.records],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=batch.sequence if self._is_idempotent else -1,
        )
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=3_000,
            topic_data=[
                TopicProduceData(
                    name=partition.topic,
                    topic_id=client.topic_ids[partition.topic],
                    partition_data=[PartitionProduceData(index=partition.partition, records=memoryview(data))],
                )
            ],
        )
        response = await client.ask(leader[0], request, ProduceResponse, purpose="produce")
        row = response.responses[0].partition_responses[0]
        error = ErrorCode(row.error_code)
        if error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            error = ErrorCode.NONE
            row.base_offset = -1
        if error is ErrorCode.NONE:
            batch.is_acknowledged = True
            self._leader_epoch = max(self._leader_epoch, batch.leader_epoch)
            client.kernel.trace("batch acknowledged", f"{self.name}, sequence {batch.sequence}, at {row.base_offset}")
            for index, sent in enumerate(batch.records):
                sent.offset = row.base_offset + index if row.base_offset >= 0 else -1
        else:
            client.kernel.trace(f"produce: {error.name}", f"{self.name} to {leader[0]}, sequence {batch.sequence}")
        return error
