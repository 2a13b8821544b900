"""Asks transaction coordinators to verify that partitions belong to a transaction, or to add them (KIP-890).

All questions of one turn of the loop to one coordinator share a request (AddPartitionsToTxn from version 4 on). While
that request is in flight, further questions collect for the next one. So a thousand producers cost one request per
round trip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla.broker.local_calls import ask_broker
from ottla.coordinator.runtime.hashing import partition_for
from ottla.coordinator.txn import TRANSACTION_TOPIC
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replica.transactional import Transaction
    from ottla.wire.message import Message

__all__ = ["CoordinatorQuestions"]

_PURPOSE = "transactions"

# The number of transactional ids in one request; more go with the next request. So the coordinator is not busy for
# long, and its answer stays far below the size limit of a frame.
TRANSACTIONS_PER_REQUEST_MAX = 1_000
# Together with their topics and transactional ids they are far below `elements_max` of AddPartitionsToTxn: a request
# with more would be refused as a whole.
PARTITIONS_PER_REQUEST_MAX = 5_000


class CoordinatorQuestions:
    """The pending questions of this broker to all transaction coordinators."""

    __slots__ = ("_broker", "_by_node", "failures", "questions")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_node: dict[int, _Coordinator] = {}
        # Counters for metrics.
        self.questions = 0
        self.failures = 0

    @property
    def is_enabled(self) -> bool:
        return self._broker.config.transaction_partition_verification_enable

    def ask(
        self, transaction: Transaction, *, producer_id: int, producer_epoch: int, topic: str, index: int
    ) -> Deferred[ErrorCode]:
        answer: Deferred[ErrorCode] = Deferred()
        question = _Question(transaction, producer_id, producer_epoch, (topic, index), answer)
        question.deadline = self._broker.world.clock.monotonic() + self._retry_timeout_ms / 1000
        self.questions += 1
        self._put(question)
        return answer

    @property
    def _retry_timeout_ms(self) -> int:
        config = self._broker.config
        return min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)

    def _put(self, question: _Question) -> None:
        node_id = self._coordinator_of(question.transaction.transactional_id)
        if node_id is None:
            self._broker.world.scheduler.call_soon(self.settle, question, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        coordinator = self._by_node.get(node_id)
        if coordinator is None:
            coordinator = self._by_node[node_id] = _Coordinator(self, self._broker, node_id)
        coordinator.put(question)

    def _coordinator_of(self, transactional_id: str) -> int | None:
        image = self._broker.metadata.image
        topic = image.topics.by_name.get(TRANSACTION_TOPIC)
        if topic is None or not topic.partitions:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        broker = image.brokers.get(leader)
        return None if broker is None or broker.fenced else leader

    def settle(self, question: _Question, code: ErrorCode) -> None:
        """Resolves a question with the coordinator's answer or an error; retries while another transaction ends."""
        transaction = question.transaction
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and transaction.adds_partitions:
            world = self._broker.world
            if world.clock.monotonic() < question.deadline:
                # The markers of the previous transaction are being written. They rarely take longer than this delay.
                delay_ms = self._broker.config.add_partitions_to_txn_retry_backoff_ms
                world.scheduler.call_later(delay_ms / 1000, self._put, question)
                return
        if code is not ErrorCode.NONE:
            self.failures += 1
        if code is ErrorCode.PRODUCER_FENCED:
            # The error that producers expect in a produce response.
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code is ErrorCode.TRANSACTION_ABORTABLE and not transaction.knows_abortable:
            code = ErrorCode.INVALID_TXN_STATE
        question.answer.resolve(code)


class _Question:
    __slots__ = ("answer", "deadline", "partition", "producer_epoch", "producer_id", "transaction")

    def __init__(
        self,
        transaction: Transaction,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        answer: Deferred[ErrorCode],
    ) -> None:
        self.transaction = transaction
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.partition = partition
        self.answer = answer
        self.deadline = 0.0


class _Coordinator:
    """One broker that coordinates transactions: the waiting questions, and whether a request is in flight."""

    __slots__ = ("_broker", "_is_busy", "_is_planned", "_node_id", "_questions", "_waiting")

    def __init__(self, questions: CoordinatorQuestions, broker: Broker, node_id: int) -> None:
        self._questions = questions
        self._broker = broker
        self._node_id = node_id
        # Questions by transactional id, because a request may contain a transactional id only once.
        self._waiting: dict[str, list[_Question]] = {}
        self._is_planned = False
        self._is_busy = False

    def put(self, question: _Question) -> None:
        questions = self._waiting.setdefault(question.transaction.transactional_id, [])
        if questions and not _is_same_producer(questions[0], question):
            # Two instances of one producer. The older instance is fenced here, without asking the coordinator. If their
            # epochs do not decide (a later producer id may be lower), the producer of the earlier question retries.
            fenced, code = questions, ErrorCode.NETWORK_EXCEPTION
            if _is_newer(question, questions[0]):
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            elif _is_newer(questions[0], question):
                fenced, code = [question], ErrorCode.INVALID_PRODUCER_EPOCH
            if fenced is questions:
                self._waiting[question.transaction.transactional_id] = [question]
            for old in fenced:
                self._broker.world.scheduler.call_soon(self._questions.settle, old, code)
        else:
            questions.append(question)
        self._plan()

    def _plan(self) -> None:
        if self._waiting and not self._is_planned and not self._is_busy:
            self._is_planned = True
            self._broker.world.scheduler.call_soon(self._send)

    def _send(self) -> None:
        self._is_planned = False
        batch = self._take_next()
        if not batch:
            return
        self._is_busy = True
        request = AddPartitionsToTxnRequest(transactions=[_transaction(questions) for questions in batch.values()])
        ask_broker(self._broker, self._node_id, request, purpose=_PURPOSE).when_done(
            lambda done: self._on_answered(batch, done)
        )

    def _take_next(self) -> dict[str, list[_Question]]:
        """The questions of the next request. The remaining questions keep waiting in their order."""
        waiting, self._waiting = self._waiting, {}
        batch: dict[str, list[_Question]] = {}
        room = PARTITIONS_PER_REQUEST_MAX
        for transactional_id, questions in waiting.items():
            if not room or len(batch) == TRANSACTIONS_PER_REQUEST_MAX:
                self._waiting[transactional_id] = questions
                continue
            batch[transactional_id] = questions[:room]
            if len(questions) > room:
                self._waiting[transactional_id] = questions[room:]
            room -= len(batch[transactional_id])
        return batch

    def _on_answered(self, batch: dict[str, list[_Question]], done: Deferred[Message]) -> None:
        self._is_busy = False
        settle = self._questions.settle
        codes: dict[tuple[str, str, int], ErrorCode] = {}
        missing = ErrorCode.NETWORK_EXCEPTION
        if done.error is None:
            response = cast(AddPartitionsToTxnResponse, done.result())
            if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                # The brokers are misconfigured. Clients cannot handle this error, so they get INVALID_TXN_STATE.
                missing = ErrorCode.INVALID_TXN_STATE
            elif response.error_code:
                missing = ErrorCode.told(response.error_code)
            for result in response.results_by_transaction:
                for topic in result.topic_results:
                    for row in topic.results_by_partition:
                        codes[result.transactional_id, topic.name, row.partition_index] = ErrorCode.told(
                            row.partition_error_code
                        )
        for transactional_id, questions in batch.items():
            for question in questions:
                settle(question, codes.get((transactional_id, *question.partition), missing))
        self._plan()


def _is_same_producer(first: _Question, second: _Question) -> bool:
    return (
        first.producer_id == second.producer_id
        and first.producer_epoch == second.producer_epoch
        and first.transaction.adds_partitions == second.transaction.adds_partitions
    )


def _is_newer(first: _Question, second: _Question) -> bool:
    return first.producer_id == second.producer_id and first.producer_epoch > second.producer_epoch


def _transaction(questions: list[_Question]) -> AddPartitionsToTxnTransaction:
    first = questions[0]
    by_topic: dict[str, dict[int, None]] = {}
    for question in questions:
        topic, index = question.partition
        by_topic.setdefault(topic, {})[index] = None
    return AddPartitionsToTxnTransaction(
        transactional_id=first.transaction.transactional_id,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        verify_only=not first.transaction.adds_partitions,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=list(indexes)) for name, indexes in by_topic.items()],
    )
