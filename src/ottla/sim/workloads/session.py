"""The requests of a transactional producer, in transaction version 1 or 2, each repeated until it is answered.

A request without an answer is sent again. An error that a retry cannot resolve raises `TransactionFailed`; the next
`begin` aborts the open transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.sim.client import SimClient
from ottla.sim.process import EPOCH_MS
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.peers import Endpoint, PeerUnreachable

__all__ = ["Identity", "TransactionFailed", "TransactionSession"]

TRANSACTION_TIMEOUT_MS = 15_000
ATTEMPTS_MAX = 40
ANY_VERSION = 32767

# The newest versions for clients of transaction version 1, which add partitions themselves. In later versions the
# broker adds them (KIP-890).
OLD_ADD_VERSION = 3
OLD_PRODUCE_VERSION = 11
OLD_OFFSETS_VERSION = 4
# The newest version that names topics instead of giving their ids (KIP-1319).
NAMED_OFFSETS_VERSION = 5
OLD_END_VERSION = 4

MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# Errors after which a retry succeeds in time.
RETRIABLE = (
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

# A producer id and its epoch.
Identity = tuple[int, int]


class TransactionFailed(Exception):
    """The transaction cannot continue. A new InitProducerId aborts it."""


class TransactionSession:
    """One instance of a transactional producer. Its `..._once` methods send one request and return the answer."""

    def __init__(self, client: SimClient, transactional_id: str, *, is_version_2: bool) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.is_version_2 = is_version_2
        self.identity: Identity = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    def sequence(self, partition: TopicPartition) -> int:
        return self._sequences.get(partition, 0)

    # -- requests, repeated until they are answered ----------------------------------------------------------------

    async def begin(self) -> None:
        """Gets a new epoch. An open transaction of an earlier instance is aborted."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        while True:
            coordinator = await self._coordinator()
            if coordinator is not None:
                try:
                    response = await self.client.ask(
                        coordinator, request, InitProducerIdResponse, purpose="transaction"
                    )
                    if not response.error_code:
                        self._adopt_identity((response.producer_id, response.producer_epoch))
                        return
                    self.client.kernel.counts[f"init: {ErrorCode(response.error_code).name}"] += 1
                except PeerUnreachable:
                    pass
            self.client.forget_coordinator(self.transactional_id)
            await self.client.back_off()

    async def add(self, partitions: Sequence[TopicPartition]) -> None:
        await self._retry("could not add partitions", lambda: self.add_once(self.identity, partitions))

    async def produce(self, partition: TopicPartition, value: bytes) -> None:
        sequence = self.sequence(partition)
        await self._retry("could not produce", lambda: self.produce_once(self.identity, partition, sequence, value))
        self._sequences[partition] = sequence + 1

    async def add_offsets(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            group_id=group,
        )

        async def attempt() -> ErrorCode | None:
            coordinator = await self._coordinator()
            if coordinator is None:
                return None
            try:
                response = await self.client.ask(coordinator, request, AddOffsetsToTxnResponse, purpose="transaction")
            except PeerUnreachable:
                self.client.forget_coordinator(self.transactional_id)
                return None
            return ErrorCode(response.error_code)

        await self._retry("could not add offsets", attempt)

    async def commit_offset(self, group: str, partition: TopicPartition, offset: int) -> None:
        await self._retry(
            "could not commit offsets", lambda: self.commit_offset_once(self.identity, group, partition, offset)
        )

    async def end(self, *, is_commit: bool) -> None:
        identity = self.identity

        async def attempt() -> ErrorCode | None:
            return await self.end_once(identity, is_commit=is_commit, adopts_identity=True)

        await self._retry("could not end", attempt)

    # -- single requests, with any producer identity ---------------------------------------------------------------

    async def add_once(
        self, identity: Identity, partitions: Sequence[TopicPartition], *, purpose: str = "transaction"
    ) -> ErrorCode | None:
        """AddPartitionsToTxn in the form of transaction version 1."""
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()
            ],
        )
        coordinator = await self._coordinator()
        if coordinator is None:
            return None
        try:
            response = await self.client.ask(
                coordinator, request, AddPartitionsToTxnResponse, purpose=purpose, version_max=OLD_ADD_VERSION
            )
        except PeerUnreachable:
            self.client.forget_coordinator(self.transactional_id)
            return None
        errors = [
            ErrorCode(row.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]
        failures = [error for error in errors if error and error is not ErrorCode.OPERATION_NOT_ATTEMPTED]
        return failures[0] if failures else (ErrorCode.NONE if errors and not any(errors) else None)

    async def produce_once(
        self, identity: Identity, partition: TopicPartition, sequence: int, value: bytes, *, purpose: str = "produce"
    ) -> ErrorCode | None:
        client = self.client
        leader = await client.leader(partition)
        if leader is None or partition.topic not in client.topic_ids:
            client.forget_leader(partition)
            return None
        data = build_batch(
            [Record(timestamp=EPOCH_MS + client.kernel.now_us // 1000, key=None, value=value)],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
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
                leader[0],
                request,
                ProduceResponse,
                purpose=purpose,
                version_max=ANY_VERSION if self.is_version_2 else OLD_PRODUCE_VERSION,
            )
        except PeerUnreachable:
            client.forget_leader(partition)
            return None
        error = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if error:
            client.forget_leader(partition)
        return ErrorCode.NONE if error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER else error

    async def commit_offset_once(
        self, identity: Identity, group: str, partition: TopicPartition, offset: int, *, purpose: str = "group"
    ) -> ErrorCode | None:
        coordinator = await self.client.coordinator(group)
        if coordinator is None:
            return None
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=identity[0],
            producer_epoch=identity[1],
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=partition.topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset)
                    ],
                )
            ],
        )
        try:
            response = await self.client.ask(
                coordinator,
                request,
                TxnOffsetCommitResponse,
                purpose=purpose,
                version_max=NAMED_OFFSETS_VERSION if self.is_version_2 else OLD_OFFSETS_VERSION,
            )
        except PeerUnreachable:
            self.client.forget_coordinator(group)
            return None
        error = ErrorCode(response.topics[0].partitions[0].error_code)
        if error in MOVED:
            self.client.forget_coordinator(group)
        return error

    async def end_once(
        self, identity: Identity, *, is_commit: bool, adopts_identity: bool = False, purpose: str = "transaction"
    ) -> ErrorCode | None:
        """EndTxn. With `adopts_identity` the identity in the answer is used for the next transaction."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=is_commit,
        )
        coordinator = await self._coordinator()
        if coordinator is None:
            return None
        try:
            response = await self.client.ask(
                coordinator,
                request,
                EndTxnResponse,
                purpose=purpose,
                version_max=ANY_VERSION if self.is_version_2 else OLD_END_VERSION,
            )
        except PeerUnreachable:
            self.client.forget_coordinator(self.transactional_id)
            return None
        if adopts_identity and not response.error_code and self.is_version_2 and response.producer_id >= 0:
            self._adopt_identity((response.producer_id, response.producer_epoch))
        return ErrorCode(response.error_code)

    # -- helpers ---------------------------------------------------------------------------------------------------

    async def _coordinator(self) -> Endpoint | None:
        return await self.client.coordinator(self.transactional_id, key_type=1)

    async def _retry(self, failure: str, attempt: Callable[[], Coroutine[Any, Any, ErrorCode | None]]) -> None:
        for _ in range(ATTEMPTS_MAX):
            error = await attempt()
            if error is ErrorCode.NONE:
                return
            if error in MOVED:
                self.client.forget_coordinator(self.transactional_id)
            if error is not None and error not in RETRIABLE:
                raise TransactionFailed(error.name)
            await self.client.back_off()
        raise TransactionFailed(failure)

    def _adopt_identity(self, identity: Identity) -> None:
        if identity != self.identity:
            self.identity = identity
            self._sequences.clear()
