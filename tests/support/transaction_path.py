"""A broker's transaction coordinator without sockets: real log and replay, real handlers, a virtual clock.

Markers go to `Leaders`, which play every other broker: they take markers, refuse them, or leave them unanswered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.coordinator.txn.service import TransactionCoordinator
from ottla.coordinator.txn.state import TransactionShard
from ottla.coordinator.txn.transaction import Transaction
from ottla.metadata.delta import MetadataDelta
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.storage.errors import StorageError
from ottla.wire.messages import add_partitions_to_txn as ap
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.group_path import GroupPath

__all__ = ["Leaders", "Producer", "TransactionPath", "Written"]

STATE_TOPIC = "__transaction_state"


class Written(NamedTuple):
    """A marker that a partition has taken."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    is_commit: bool


class Leaders:
    """All partition leaders. The metadata image determines the leader, unless `moved` overrides it."""

    def __init__(self, path: TransactionPath) -> None:
        self._path = path
        self.moved: dict[TopicPartition, int] = {}
        # The errors with which a partition refuses its marker, once per entry.
        self.refusals: dict[TopicPartition, list[int]] = {}
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.written: list[Written] = []
        # Brokers that take markers and do not answer; `release` sends their answers.
        self.silent: set[int] = set()
        self.held: list[tuple[Deferred[WriteTxnMarkersResponse], WriteTxnMarkersResponse]] = []
        self.unreachable: set[int] = set()

    def leader_of(self, partition: TopicPartition) -> int | None:
        image = self._path.image.topics.partition(*partition)
        return None if image is None else self.moved.get(partition, image.leader)

    def write(self, node_id: int, request: WriteTxnMarkersRequest) -> Deferred[WriteTxnMarkersResponse]:
        self.requests.append((node_id, request))
        if node_id in self.unreachable:
            return Deferred.failed(OSError("no such node"))
        response = self._take(node_id, request)
        answer: Deferred[WriteTxnMarkersResponse] = Deferred()
        if node_id in self.silent:
            self.held.append((answer, response))
        else:
            self._path.virtual.scheduler.call_soon(answer.resolve, response)
        return answer

    def release(self) -> None:
        held_responses, self.held = self.held, []
        for answer, response in held_responses:
            answer.resolve(response)

    def _take(self, node_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        results = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                partitions = []
                for index in topic.partition_indexes:
                    partition = TopicPartition(topic.name, index)
                    refusals = self.refusals.get(partition)
                    code = refusals.pop(0) if refusals else ErrorCode.NONE
                    if self.leader_of(partition) != node_id:
                        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    if code is ErrorCode.NONE:
                        self.written.append(
                            Written(partition, marker.producer_id, marker.producer_epoch, marker.transaction_result)
                        )
                    partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=results)


class TransactionPath(GroupPath):
    """A broker that leads the topic of transactions, in a cluster whose other brokers are `leaders`."""

    transactions: TransactionCoordinator

    def __init__(self, directory: str, **options: Any) -> None:
        self.leaders = Leaders(self)
        self.next_producer_id = 1000
        super().__init__(directory, **options)

    def start(self, *, runs: bool = True) -> None:
        super().start(runs=False)
        self.transactions = TransactionCoordinator(
            config=self.config,
            world=self.virtual.world,
            replicas=self.replicas,
            image=self.image,
            port=self.leaders,
            new_producer_id=self._new_producer_id,
            may_be_replaced=lambda: self.may_be_replaced,
        )
        self.transactions.start(self.image)
        self.broker.transactions = self.transactions
        if runs:
            self.run()

    def stop(self) -> None:
        self.transactions.close()
        super().stop()

    def crash(self) -> None:
        """Stops all writes; the content of files stays."""
        for partition in list(self.replicas.partitions()):
            partition.log.files.take_offline(StorageError("crashed"))
        self.transactions.close()
        self.virtual.scheduler._soon.clear()
        self.virtual.scheduler._later.clear()
        super().crash()

    def commit(self, *records: Any) -> None:
        before = self.image
        super().commit(*records)
        delta = MetadataDelta(before)
        for record in records:
            delta.replay(record)
        self.transactions.publish(delta, self.image)

    def run(self) -> None:
        super().run()
        self.transactions.runtime.invariants()

    def create_state_topic(self, partitions: int = 2, **configs: str) -> None:
        self.create_topic(STATE_TOPIC, partitions, **{"cleanup_policy": "compact", **configs})
        self.run()

    def set_transaction_version(self, level: int) -> None:
        self.commit(r.FeatureLevelRecord(name="transaction.version", feature_level=level))

    def shard_of(self, transactional_id: str) -> TransactionShard:
        return self.transactions.runtime.shard_of(transactional_id).state

    def transaction(self, transactional_id: str) -> Transaction:
        return self.shard_of(transactional_id).transactions[transactional_id]

    def status(self, transactional_id: str) -> str:
        return self.transaction(transactional_id).status.label

    def _new_producer_id(self) -> Deferred[int]:
        self.next_producer_id += 1
        return Deferred.resolved(self.next_producer_id)


class Producer:
    """A transactional producer, by default with the second version of transactions."""

    def __init__(self, path: TransactionPath, transactional_id: str, *, version: int = 2, timeout_ms: int = 60_000):
        self.path = path
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1

    def init(self, **fields: Any) -> ErrorCode:
        response: InitProducerIdResponse = self.path.ask(
            InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms, **fields
            )
        )
        if not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return ErrorCode(response.error_code)

    def add(self, *partitions: tuple[str, int], verify: bool = False) -> ErrorCode:
        response = self.path.ask(self.add_request(*partitions, verify=verify), 5 if self.version >= 2 or verify else 3)
        return self.added(response)

    def added(self, response: ap.AddPartitionsToTxnResponse) -> ErrorCode:
        """The common error code of all partitions."""
        topics = response.results_by_topic_v3_and_below or response.results_by_transaction[0].topic_results
        (code,) = {result.partition_error_code for topic in topics for result in topic.results_by_partition}
        return ErrorCode(code)

    def add_request(self, *partitions: tuple[str, int], verify: bool = False) -> ap.AddPartitionsToTxnRequest:
        topics = [ap.AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions]
        if self.version >= 2 or verify:
            transaction = ap.AddPartitionsToTxnTransaction(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                verify_only=verify,
                topics=topics,
            )
            return ap.AddPartitionsToTxnRequest(transactions=[transaction])
        return ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )

    def begin_end(self, *, commits: bool) -> Deferred[EndTxnResponse]:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        return self.path.begin(request, 5 if self.version >= 2 else 4)

    def end(self, *, commits: bool) -> ErrorCode:
        answer = self.begin_end(commits=commits)
        self.path.run()
        response = answer.result()
        if not response.error_code and self.version >= 2:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return ErrorCode(response.error_code)

    def commit(self) -> ErrorCode:
        return self.end(commits=True)

    def abort(self) -> ErrorCode:
        return self.end(commits=False)
