"""A producer's transactions, over both versions of the protocol.

In the first version (KIP-98) a producer adds every partition at its coordinator before it writes there. In the second
(KIP-890) the brokers do this, and the end of a transaction raises the producer epoch, so that late writes cannot become
part of the next transaction. The cluster's feature `transaction.version` decides which version is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from ottla.client.admin.groups import CommittedOffset
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, check
from ottla.client.leaders import by_topic
from ottla.client.producer.sequences import ProducerIdentity
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transaction_errors import TransactionAbortable, classified
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.message import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

__all__ = ["PreparedTransaction", "TransactionManager", "TransactionState"]

# Higher versions are for brokers only.
_ADD_PARTITIONS_VERSION_MAX = 3
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


class PreparedTransaction(NamedTuple):
    """Names a prepared transaction (KIP-939). Its text is that of Java's PreparedTxnState."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}" if self.producer_id >= 0 else ""

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """The transaction of a text; an empty text stands for none. Raises ClientError."""
        if not text:
            return NO_TRANSACTION
        producer_id, separator, epoch = text.partition(":")
        if not separator or not producer_id.isdecimal() or not epoch.isdecimal():
            raise ClientError(f"{text!r} does not name a prepared transaction: it looks like 4711:3.")
        return cls(int(producer_id), int(epoch))


NO_TRANSACTION = PreparedTransaction(-1, -1)


class TransactionState(Enum):
    UNINITIALIZED = "uninitialized"
    READY = "ready"
    OPEN = "open"
    # All records are in the cluster; only a commit or an abort may follow.
    PREPARED = "prepared"
    # The transaction is being committed or aborted, or its outcome is unknown: no more records are accepted.
    ENDING = "ending"
    FAILED = "failed"
    FENCED = "fenced"


_UNDER_WAY = (TransactionState.OPEN, TransactionState.PREPARED, TransactionState.ENDING, TransactionState.FAILED)
# enable_2pc and keep_prepared_txn appear with this version of InitProducerId.
_TWO_PHASE_VERSION = 6
# A transaction that may be prepared has no time-out.
_NO_TIMEOUT_MS = 2_147_483_647


class TransactionManager:
    def __init__(self, cluster: Cluster, settings: ProducerSettings, identity: ProducerIdentity) -> None:
        self._cluster = cluster
        self._settings = settings
        self._identity = identity
        self._partitions: set[TopicPartition] = set()
        # True if the coordinator may have the transaction: only then it needs an EndTxn.
        self._begun = False
        self._failure: Exception | None = None
        # True for a transaction that another process ends.
        self._is_joined = False
        self.prepared = NO_TRANSACTION
        self.state = TransactionState.UNINITIALIZED
        self._second_version: bool | None = None

    async def init(self, *, continuing: bool = False, keeps_prepared: bool = False) -> None:
        """Initialises the transactional id. `continuing` fails if another producer has done so since (KIP-360).

        `keeps_prepared` leaves a prepared transaction as it is, to be completed by this producer (KIP-939).
        """
        two_phase = self._settings.two_phase_commit
        if keeps_prepared and not two_phase:
            raise ClientError("Prepared transactions need transaction.two.phase.commit.enable=true.")
        if two_phase:
            await self._check_two_phase()
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=_NO_TIMEOUT_MS if two_phase else self._settings.transaction_timeout_ms,
            producer_id=self._identity.producer_id if continuing else -1,
            producer_epoch=self._identity.epoch if continuing else -1,
            enable_2pc=two_phase,
            keep_prepared_txn=keeps_prepared,
        )

        async def attempt() -> InitProducerIdResponse:
            answer: InitProducerIdResponse = await self._ask(request)
            # Retried while the previous transaction is completing.
            check(answer.error_code)
            return answer

        try:
            response = await self._cluster.retry(attempt)
        except KafkaError as error:
            if keeps_prepared and error.code == ErrorCode.UNSUPPORTED_VERSION:
                raise ClientError("The cluster cannot keep prepared transactions.") from error
            raise classified(error) from error
        self._identity.set(response.producer_id, response.producer_epoch)
        self.state = TransactionState.READY
        if response.ongoing_txn_producer_id >= 0:
            self.prepared = PreparedTransaction(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            self.state, self._begun = TransactionState.PREPARED, True

    async def _check_two_phase(self) -> None:
        """Raises ClientError if the coordinator would not understand the request."""

        async def version() -> int:
            node_id = await self._cluster.coordinator(self._cluster.TRANSACTION, self._id)
            connection = await self._cluster.node_connection(node_id)
            return connection.version_of(API_SPECS[ApiKey.INIT_PRODUCER_ID])

        if await self._cluster.retry(version) < _TWO_PHASE_VERSION:
            raise ClientError(
                "The cluster has no two-phase commits: transaction.two.phase.commit.enable needs Apache Kafka with "
                "InitProducerId version 6, which 4.3 has only with unstable.api.versions.enable=true."
            )

    def prepare(self) -> PreparedTransaction:
        """All records are in the cluster. The transaction stays open until this or a later producer completes it."""
        if not self._settings.two_phase_commit:
            raise ClientError("Only transactions with transaction.two.phase.commit.enable=true can be prepared.")
        if self.state is TransactionState.FAILED:
            raise self._must_abort()
        if self.state not in (TransactionState.OPEN, TransactionState.ENDING):
            raise ClientError("There is no transaction to prepare.")
        self.state = TransactionState.PREPARED
        self.prepared = PreparedTransaction(self._identity.producer_id, self._identity.epoch)
        return self.prepared

    def check_prepared(self) -> None:
        """Raises ClientError if records may still be on their way: only a prepared transaction can be completed."""
        if self.state is not TransactionState.PREPARED:
            raise ClientError(
                f"There is no prepared transaction to complete: the producer is {self.state.value}. "
                "Call prepare_transaction(), or init_transactions(keep_prepared=True)."
            )

    def begin(self) -> None:
        self._check_fenced()
        if self.state is not TransactionState.READY:
            raise ClientError(f"A transaction cannot begin now: the producer is {self.state.value}.")
        self.state = TransactionState.OPEN
        self._begun = False
        self._failure = None
        self._partitions.clear()

    def share(self) -> tuple[int, int]:
        """The producer id and epoch for other writers of the open transaction; this producer ends it."""
        self.check_open()
        self._begun = True
        return self._identity.producer_id, self._identity.epoch

    def join(self, producer_id: int, epoch: int) -> None:
        """Writes in a transaction that another producer has begun and ends."""
        assert self.state is TransactionState.UNINITIALIZED, "a producer joins one transaction, and has none of its own"
        self._identity.set(producer_id, epoch)
        self.state, self._is_joined = TransactionState.OPEN, True

    @property
    def is_own_and_open(self) -> bool:
        """True if only an abort can follow when the producer is closed.

        A prepared transaction stays open, also if its commit has failed: a later producer completes it (KIP-939).
        """
        may_abort = not self._is_joined and self.prepared == NO_TRANSACTION
        return may_abort and self.state in (TransactionState.OPEN, TransactionState.FAILED)

    def check_open(self) -> None:
        """Raises ClientError if no record may be sent now."""
        if self._settings.transactional_id is None:
            return
        self._check_fenced()
        if self.state is TransactionState.FAILED and self._failure is not None:
            raise self._must_abort()
        if self.state is not TransactionState.OPEN:
            raise ClientError("A transactional producer sends between begin_transaction() and commit_transaction().")

    def close(self) -> None:
        """Refuses further records: they belong neither to this transaction nor to the next one."""
        if self.state is TransactionState.OPEN:
            self.state = TransactionState.ENDING

    def adds_by_itself(self, connection: Connection) -> bool:
        """True if brokers add partitions to the transaction (KIP-890)."""
        if self._second_version is None:
            self._second_version = connection.features.get("transaction.version", 0) >= 2
        return self._second_version

    async def uses_second_version(self) -> bool:
        """As `adds_by_itself`, also while no broker can be reached: the first call waits for a connection."""
        if self._second_version is None:
            self.adds_by_itself(await self._cluster.retry(self._cluster.any_connection))
        return bool(self._second_version)

    async def add_partitions(self, partitions: list[TopicPartition]) -> None:
        """Adds new partitions at the coordinator, if the version of the protocol requires it."""
        if self._settings.transactional_id is None:
            return
        new = [partition for partition in partitions if partition not in self._partitions]
        if not new:
            return
        second = self.adds_by_itself(await self._cluster.any_connection())
        self._begun = True
        if second:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in by_topic(new).items()
            ],
        )

        def codes(answer: AddPartitionsToTxnResponse) -> list[int]:
            return [
                partition.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
            ]

        async def attempt() -> None:
            response: AddPartitionsToTxnResponse = await self._cluster.ask_coordinator(
                self._cluster.TRANSACTION, self._id, request, codes, version_max=_ADD_PARTITIONS_VERSION_MAX
            )
            for code in codes(response):
                check(code)

        await self._cluster.retry(attempt)
        self._partitions.update(new)

    async def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        *,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> None:
        self.check_open()
        commits = {
            partition: offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
            for partition, offset in offsets.items()
        }
        second = await self.uses_second_version()
        self._begun = True
        try:
            if not second:
                await self._cluster.retry(lambda: self._add_offsets(group_id))
            await self._commit_offsets(group_id, commits, second=second, member=(generation, member_id, instance_id))
        except (ClientError, KafkaError) as error:
            # Without these partitions the transaction must not be committed.
            self.on_failure(error)
            raise (classified(error) if isinstance(error, KafkaError) else error) from error

    async def _commit_offsets(
        self,
        group_id: str,
        commits: Mapping[TopicPartition, CommittedOffset],
        *,
        second: bool,
        member: tuple[int, str, str | None],
    ) -> None:
        generation, member_id, instance_id = member
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=commits[TopicPartition(name, number)].offset,
                            committed_leader_epoch=commits[TopicPartition(name, number)].leader_epoch,
                            committed_metadata=commits[TopicPartition(name, number)].metadata,
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(commits).items()
            ],
        )

        def codes(answer: TxnOffsetCommitResponse) -> list[int]:
            return [partition.error_code for topic in answer.topics for partition in topic.partitions]

        async def attempt() -> None:
            response: TxnOffsetCommitResponse = await self._cluster.ask_coordinator(
                self._cluster.GROUP, group_id, request, codes, version_max=5 if second else 4
            )
            for code in codes(response):
                check(code)

        await self._cluster.retry(attempt)

    async def end(self, *, commit: bool) -> None:
        self._check_fenced()
        if commit and self.state is TransactionState.FAILED:
            raise self._must_abort()
        if self.state not in _UNDER_WAY:
            raise ClientError("There is no transaction to end.")
        self.close()
        if not self._begun:
            self._end()
            return
        second = await self.uses_second_version()
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=commit,
        )

        async def attempt() -> EndTxnResponse:
            response: EndTxnResponse = await self._ask(request, version_max=5 if second else 4)
            check(response.error_code)
            return response

        try:
            response = await self._cluster.retry(attempt)
        except KafkaError as error:
            if not error.code.retriable:
                self.on_failure(error)
            # After a retriable error the call is repeated: the coordinator may have processed an unanswered attempt.
            raise classified(error) from error
        if second and response.producer_id >= 0:
            self._identity.set(response.producer_id, response.producer_epoch)
        elif not second and not commit:
            # Failed batches have left gaps in the sequence numbers; a new epoch restarts them (KIP-360).
            await self.init(continuing=True)
        self._end()

    def _check_fenced(self) -> None:
        """Raises the error that has ended the producer, as an exception of its class (KIP-1050)."""
        if self.state is TransactionState.FENCED and isinstance(self._failure, KafkaError):
            raise classified(self._failure)

    def _must_abort(self) -> TransactionAbortable:
        message = f"The transaction has failed and must be aborted: {self._failure}"
        return TransactionAbortable(ErrorCode.TRANSACTION_ABORTABLE, message)

    def _end(self) -> None:
        self.state = TransactionState.READY
        self.prepared = NO_TRANSACTION
        self._begun = False
        self._failure = None

    def on_failure(self, error: Exception) -> None:
        """A failed record makes its transaction abort-only; fencing ends the producer."""
        if self.state not in _UNDER_WAY:
            return
        fenced = isinstance(error, KafkaError) and error.code in _FENCED
        self.state = TransactionState.FENCED if fenced else TransactionState.FAILED
        self._failure = error

    def on_unsent(self, error: Exception) -> None:
        """A record of the open transaction is in no batch: without it the transaction must not be committed."""
        if self.state is TransactionState.OPEN:
            self.on_failure(error)

    async def _add_offsets(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=group_id,
        )
        response: AddOffsetsToTxnResponse = await self._ask(request)
        check(response.error_code)

    async def _ask(self, request: Message, *, version_max: int = 32767) -> Any:
        return await self._cluster.ask_coordinator(
            self._cluster.TRANSACTION, self._id, request, version_max=version_max
        )

    @property
    def _id(self) -> str:
        if self._settings.transactional_id is None:
            raise ClientError("Only a producer with a transactional id has transactions.")
        return self._settings.transactional_id
