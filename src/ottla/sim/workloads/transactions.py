"""A transactional producer, of either generation of the protocol, and a reader of what is committed.

Each transaction writes a few records to several partitions and is committed or aborted by chance. A request without an
answer is sent again until there is one. Whatever goes wrong for good ends in a new InitProducerId, which aborts what is
open; only where a commit was asked for and never answered is the outcome not known, and then it must be all or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.control import ControlType, read_control_type
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.record import Record
from ottla.sim.history import Outcome, Transaction
from ottla.sim.process import EPOCH_MS
from ottla.sim.tasks import sleep
from ottla.sim.workloads.consume import value_of
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.peers import PeerUnreachable

__all__ = ["ReadCommitted", "Transact"]

TRANSACTION_TIMEOUT_MS = 15_000
ATTEMPTS_MAX = 40

# The newest versions in which clients add partitions themselves; later ones leave that to the broker (KIP-890).
OLD_ADD_VERSION = 3
OLD_PRODUCE_VERSION = 11
OLD_END_VERSION = 4

MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# Asking again helps, sooner or later.
PASSING = (
    *MOVED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
)


class _Failed(Exception):
    """The transaction cannot go on; a new InitProducerId puts an end to it."""


class Transact(Workload):
    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        is_new: bool,
        pause_seconds: float,
    ) -> None:
        super().__init__(stage, name)
        self._partitions = partitions
        self._is_new = is_new
        self._pause_seconds = pause_seconds
        self._producer_id = self._producer_epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self._number = 0

    async def run(self) -> None:
        await self._begin_session()
        while not self.stage.is_ending:
            self._number += 1
            transaction = Transaction(producer=self.name, number=self._number)
            self.history.transactions.append(transaction)
            try:
                await self._transact(transaction)
            except _Failed as failure:
                self.client.kernel.counts[f"transaction: {failure}"] += 1
                if transaction.outcome is Outcome.OPEN:
                    transaction.outcome = Outcome.ABORTED
                await self._begin_session()
            self.client.kernel.counts[f"transaction {transaction.outcome.value}"] += 1
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))

    async def _transact(self, transaction: Transaction) -> None:
        count = self.random.randint(1, min(3, len(self._partitions)))
        chosen = self.random.sample(list(self._partitions), count)
        if not self._is_new:
            await self._add(chosen)
        for index, partition in enumerate(chosen * self.random.randint(1, 2)):
            await self._produce(transaction, partition, index)
        is_commit = self.random.random() < 0.7
        if is_commit:
            # From here on it may be committed, whether anybody says so or not.
            transaction.outcome = Outcome.UNKNOWN
        await self._end(is_commit=is_commit)
        transaction.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED

    # -- the requests ----------------------------------------------------------------------------------------------

    async def _begin_session(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        while True:
            coordinator = await self.client.coordinator(self.name, key_type=1)
            if coordinator is not None:
                try:
                    response = await self.client.ask(
                        coordinator, request, InitProducerIdResponse, purpose="transaction"
                    )
                    if not response.error_code:
                        self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
                        self._sequences.clear()
                        return
                    self.client.kernel.counts[f"init: {ErrorCode(response.error_code).name}"] += 1
                except PeerUnreachable:
                    pass
            self.client.forget_coordinator(self.name)
            await self.client.back_off()

    async def _add(self, partitions: Sequence[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()
            ],
        )
        for _ in range(ATTEMPTS_MAX):
            coordinator = await self.client.coordinator(self.name, key_type=1)
            if coordinator is not None:
                try:
                    response = await self.client.ask(
                        coordinator,
                        request,
                        AddPartitionsToTxnResponse,
                        purpose="transaction",
                        version_max=OLD_ADD_VERSION,
                    )
                except PeerUnreachable:
                    self.client.forget_coordinator(self.name)
                else:
                    rows = [
                        ErrorCode(row.partition_error_code)
                        for topic in response.results_by_topic_v3_and_below
                        for row in topic.results_by_partition
                    ]
                    if rows and not any(rows):
                        return
                    self._check([error for error in rows if error and error is not ErrorCode.OPERATION_NOT_ATTEMPTED])
            await self.client.back_off()
        raise _Failed("could not add partitions")

    async def _produce(self, transaction: Transaction, partition: TopicPartition, index: int) -> None:
        client = self.client
        value = f"{self.name}/{transaction.number}/{index}".encode()
        transaction.records.append((partition, value))
        sequence = self._sequences.get(partition, 0)
        for _ in range(ATTEMPTS_MAX):
            found = await client.leader(partition)
            if found is not None and partition.topic in client.topic_ids:
                data = build_batch(
                    [Record(timestamp=EPOCH_MS + self.now_us // 1000, key=None, value=value)],
                    producer_id=self._producer_id,
                    producer_epoch=self._producer_epoch,
                    base_sequence=sequence,
                    is_transactional=True,
                )
                request = ProduceRequest(
                    transactional_id=self.name,
                    acks=-1,
                    timeout_ms=3_000,
                    topic_data=[
                        TopicProduceData(
                            name=partition.topic,
                            topic_id=client.topic_ids[partition.topic],
                            partition_data=[PartitionProduceData(index=partition.partition, records=memoryview(data))],
                        )
                    ],
                )
                try:
                    response = await client.ask(
                        found[0],
                        request,
                        ProduceResponse,
                        purpose="produce",
                        version_max=32767 if self._is_new else OLD_PRODUCE_VERSION,
                    )
                except PeerUnreachable:
                    pass
                else:
                    error = ErrorCode(response.responses[0].partition_responses[0].error_code)
                    if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        self._sequences[partition] = sequence + 1
                        return
                    self._check([error])
            client.forget_leader(partition)
            await client.back_off()
        raise _Failed("could not produce")

    async def _end(self, *, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=is_commit,
        )
        for _ in range(ATTEMPTS_MAX):
            coordinator = await self.client.coordinator(self.name, key_type=1)
            if coordinator is not None:
                try:
                    response = await self.client.ask(
                        coordinator,
                        request,
                        EndTxnResponse,
                        purpose="transaction",
                        version_max=32767 if self._is_new else OLD_END_VERSION,
                    )
                except PeerUnreachable:
                    self.client.forget_coordinator(self.name)
                else:
                    error = ErrorCode(response.error_code)
                    if error is ErrorCode.NONE:
                        if self._is_new and response.producer_id >= 0:
                            self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
                            self._sequences.clear()
                        return
                    self._check([error])
            await self.client.back_off()
        raise _Failed("could not end")

    def _check(self, errors: Sequence[ErrorCode]) -> None:
        for error in errors:
            if error not in PASSING:
                raise _Failed(error.name)
            if error in MOVED:
                self.client.forget_coordinator(self.name)


class ReadCommitted(Workload):
    """Reads partitions as a consumer of committed transactions does, and writes down every value it is shown."""

    def __init__(self, stage: Stage, name: str, partitions: Sequence[TopicPartition], *, pause_seconds: float) -> None:
        super().__init__(stage, name)
        self._positions = dict.fromkeys(partitions, 0)
        self._pause_seconds = pause_seconds

    async def run(self) -> None:
        while not self.stage.is_ending:
            for partition in self._positions:
                await self._read(partition)
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))

    async def _read(self, partition: TopicPartition) -> None:
        client = self.client
        found = await client.leader(partition)
        if found is None:
            await client.back_off()
            return
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[
                FetchTopic(
                    topic=partition.topic,
                    topic_id=client.topic_ids[partition.topic],
                    partitions=[
                        FetchPartition(
                            partition=partition.partition,
                            fetch_offset=self._positions[partition],
                            current_leader_epoch=found[1],
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        try:
            response = await client.ask(found[0], request, FetchResponse, purpose="fetch")
        except PeerUnreachable:
            client.forget_leader(partition)
            return
        data = response.responses[0].partitions[0] if response.responses else None
        if data is None or data.error_code:
            client.forget_leader(partition)
            await client.back_off()
        elif data.records is not None:
            self._take(partition, data)

    def _take(self, partition: TopicPartition, data: PartitionData) -> None:
        """What is left when aborted transactions, which the broker has listed, are left out."""
        begins = sorted((aborted.first_offset, aborted.producer_id) for aborted in data.aborted_transactions or ())
        aborted: set[int] = set()
        position = self._positions[partition]
        for batch in iterate_batches(data.records):  # type: ignore[arg-type]
            header = batch.header
            while begins and begins[0][0] <= header.last_offset:
                aborted.add(begins.pop(0)[1])
            if header.is_control:
                record = next(iter(iterate_records(batch)))
                if read_control_type(record.key) is ControlType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                for record in iterate_records(batch):
                    if record.offset >= position:
                        self.history.read_committed.append((partition, value_of(record.value)))
                        self.client.kernel.counts["committed record read"] += 1
            position = max(position, header.last_offset + 1)
        self._positions[partition] = position
