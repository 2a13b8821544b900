"""A producer: batches for a partition, some of them on their way at the same time, each sent until it is acknowledged.

An idempotent producer numbers its batches, so that whatever is sent again is written once and in order. One that is not
sends again as well, and may write twice; with acks=1 it may lose what was acknowledged, which only says that the
promise is a smaller one.
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

# The broker misses something before this batch.
SEQUENCE_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
GIVEN_UP = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE})


@dataclass(slots=True)
class _Batch:
    records: list[Sent]
    sequence: int
    is_acknowledged: bool = False
    leader_epoch: int = -1
    """Of whom it was sent to last, as the client knew it."""


@dataclass(slots=True)
class _Window:
    """Batches of one partition that are not acknowledged, oldest first, and the next sequence number."""

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
        # Of the newest leader that acknowledged something.
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
                # Sometimes one after the other, sometimes in a burst.
                await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))
            if window.batches:
                await self._send_window()

    async def _begin_session(self) -> None:
        """A producer id of its own; the promises hold within the life of one."""
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
        """Sends everything that is not acknowledged, in order, and waits for every answer."""
        client, partition = self.client, self._partition
        found = await client.leader(partition)
        if found is None or partition.topic not in client.topic_ids:
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
                self.stage.cluster.found_defect,
            )
        errors = [await wait(answered) for answered in answers]
        self._window.batches = [batch for batch in batches if not batch.is_acknowledged] + self._window.batches[
            len(batches) :
        ]
        failures = [(error, batch) for error, batch in zip(errors, batches, strict=True) if error is not ErrorCode.NONE]
        if failures:
            await self._recover(*failures[0])

    async def _recover(self, error: ErrorCode | None, batch: _Batch) -> None:
        """After the first failure of a window: learn who leads now, or begin again with a new producer id."""
        self.client.forget_leader(self._partition)
        if error in SEQUENCE_LOST and self._is_idempotent:
            # What is in the window is given up: whether it was written is not known, and it is not promised either.
            self._window.batches.clear()
            # A leader that is cut off from the others and has not heard of its successor misses what that one
            # acknowledged. This client may go back to it; one that minds epochs (KIP-320) does not.
            if self._acks == -1 and batch.leader_epoch >= self._leader_epoch:
                self.history.contradict(
                    "producers keep their sequence", f"{self.name} was answered {error!r}, so a batch of it is missing"
                )
            await self._begin_session()
        elif error in GIVEN_UP:
            self.history.contradict("producers are understood", f"{self.name} was answered {error!r}")
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
        found = await client.leader(partition)
        if found is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        batch.leader_epoch = found[1]
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
        response = await client.ask(found[0], request, ProduceResponse, purpose="produce")
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
            client.kernel.trace(f"produce: {error.name}", f"{self.name} to {found[0]}, sequence {batch.sequence}")
        return error
