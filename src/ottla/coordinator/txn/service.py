"""The transaction coordinator's interface for request handlers: one method per API, with its checks and its decision.

Handlers authorise and translate the request before they call. Producer ids come from the controller, which takes time,
but a decision is made at once. A decision that needs a new producer id returns that need, and is repeated with an id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.coordinator.runtime import CoordinatorRuntime, ShardSettings
from ottla.coordinator.txn import TRANSACTION_TOPIC
from ottla.coordinator.txn.admin import TransactionFilter, decide_expiry, describe, expired_ids, list_transactions
from ottla.coordinator.txn.ending import EndResult, decide_complete, decide_end, decide_timeout, has_timed_out
from ottla.coordinator.txn.markers import Marker, MarkerPort, MarkerSender
from ottla.coordinator.txn.partitions import decide_add_partitions, verify_partitions
from ottla.coordinator.txn.producer import (
    ABORTS_FIRST,
    NEEDS_PRODUCER_ID,
    ProducerAttempt,
    ProducerIdentity,
    decide_init,
)
from ottla.coordinator.txn.records import TransactionRecords
from ottla.coordinator.txn.state import TransactionContext, TransactionDecide, TransactionShard, submit_again_later
from ottla.coordinator.txn.states import PREPARED, TransactionStatus
from ottla.coordinator.txn.transaction import SECOND_VERSION, TIMEOUT_NEVER_MS, Transaction
from ottla.decisions import Decision, Repeater, Timers
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import World
    from ottla.replica.manager import ReplicaManager
    from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
    from ottla.wire.messages.describe_transactions import TransactionState as DescribedTransaction
    from ottla.wire.messages.end_txn import EndTxnRequest
    from ottla.wire.messages.init_producer_id import InitProducerIdRequest
    from ottla.wire.messages.list_transactions import TransactionState as ListedTransaction

__all__ = ["TransactionCoordinator"]

logger = logging.getLogger("ottla.coordinator.txn")

R = TypeVar("R")

# How long a request may wait for the markers of the previous transaction before it gets CONCURRENT_TRANSACTIONS. A
# producer waits about as long as its own retry backoff. A broker's request covers many producers and blocks the next
# ones, so it waits only as long as markers usually take. `WAITING_MAX` bounds the waiting requests of one id.
PRODUCER_WAITS_MS = 100
BROKER_WAITS_MS = 10
WAITING_MAX = 100


class TransactionCoordinator:
    """All transactional ids whose partition of the state topic this broker leads."""

    __slots__ = ("_duties", "_markers", "_new_producer_id", "_world", "context", "runtime")

    def __init__(
        self,
        *,
        config: BrokerConfig,
        world: World,
        replicas: ReplicaManager,
        image: MetadataImage,
        port: MarkerPort,
        new_producer_id: Callable[[], Deferred[int]],
        may_be_replaced: Callable[[], bool],
    ) -> None:
        self._world = world
        self._new_producer_id = new_producer_id
        self._duties = Repeater(world.scheduler)
        self._markers = MarkerSender(scheduler=world.scheduler, port=port, on_written=self._on_written)
        self.context = context = TransactionContext(
            config, image, send_markers=self._send_markers, forget_markers=self._markers.forget_shard
        )

        def new_state(index: int, timers: Timers[TransactionShard]) -> TransactionShard:
            return TransactionShard(index, timers, context)

        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            topic=TRANSACTION_TOPIC,
            record_format=TransactionRecords(context),
            world=world,
            replicas=replicas,
            new_state=new_state,
            settings=ShardSettings(
                write_timeout_ms=config.request_timeout_ms,
                may_be_replaced=may_be_replaced,
                # A stale coordinator would answer that a producer's transaction never began, or that it has ended.
                refuses_all_when_replaced=True,
            ),
            load_buffer_bytes=config.transaction_state_log_load_buffer_size,
        )

    # Start and end.

    def start(self, image: MetadataImage) -> None:
        """Loads the partitions that this broker leads; called after the replicas have applied the image."""
        self.context.image = image
        self.runtime.start(image)
        config = self.context.config
        abort_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        expiry_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._duties.every(lambda: abort_ms / 1000, "timeouts", self.abort_timed_out)
        self._duties.every(lambda: expiry_ms / 1000, "expiry", self.remove_expired)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.context.image = image
        self.runtime.publish(delta, image)

    def on_broker_config(self, config: BrokerConfig) -> None:
        self.context.config = config

    def close(self) -> None:
        self._duties.stop()
        self.runtime.close()

    # Producers.

    def init_producer(self, request: InitProducerIdRequest) -> Deferred[ProducerIdentity]:
        """The producer id and epoch from now on; CONCURRENT_TRANSACTIONS while an open transaction is aborted."""
        try:
            attempt = self._check_init(request)
        except KafkaError as error:
            return Deferred.failed(error)

        def on_decided(identity: ProducerIdentity) -> ProducerIdentity:
            if identity is ABORTS_FIRST:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            return identity

        def decide(fresh_id: int | None) -> TransactionDecide[ProducerIdentity]:
            return lambda shard, now_ms: decide_init(shard, attempt, fresh_id, now_ms)

        return self._with_producer_id(attempt.transactional_id, decide, NEEDS_PRODUCER_ID).then(on_decided)

    def add_partitions(
        self, transaction: AddPartitionsToTxnTransaction, partitions: frozenset[TopicPartition], *, client_version: int
    ) -> Deferred[None]:
        """Fails with the code for every partition. In the second version of transactions a broker sends the request."""
        transactional_id = transaction.transactional_id
        if not transactional_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_REQUEST))
        producer_id, producer_epoch = transaction.producer_id, transaction.producer_epoch

        def decide(shard: TransactionShard, now_ms: int) -> Decision[None]:
            return decide_add_partitions(
                shard,
                transactional_id,
                partitions,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                client_version=client_version,
                now_ms=now_ms,
            )

        wait_ms = BROKER_WAITS_MS if client_version >= SECOND_VERSION else PRODUCER_WAITS_MS
        return self._submit_after_the_end(transactional_id, decide, wait_ms)

    def verify_partitions(
        self, transaction: AddPartitionsToTxnTransaction, partitions: frozenset[TopicPartition]
    ) -> Deferred[dict[TopicPartition, ErrorCode]]:
        """A code for each partition: NONE if the producer's open transaction has it."""
        transactional_id = transaction.transactional_id
        if not transactional_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_REQUEST))
        producer_id, producer_epoch = transaction.producer_id, transaction.producer_epoch

        def question(shard: TransactionShard) -> dict[TopicPartition, ErrorCode]:
            return verify_partitions(
                shard, transactional_id, partitions, producer_id=producer_id, producer_epoch=producer_epoch
            )

        return self.runtime.ask(transactional_id, question)

    def end(self, request: EndTxnRequest, *, client_version: int) -> Deferred[EndResult]:
        """The producer id and epoch of the next transaction, after the commit of the decision."""
        if not request.transactional_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_REQUEST))

        def decide(fresh_id: int | None) -> TransactionDecide[EndResult]:
            return lambda shard, now_ms: decide_end(shard, request, client_version, fresh_id, now_ms)

        return self._with_producer_id(request.transactional_id, decide, None)

    # Administration.

    def list_transactions(self, wanted: TransactionFilter) -> Deferred[list[ListedTransaction]]:
        """Fails while a shard of this broker is loading."""
        now_ms = self._world.clock.now_ms()
        return self.runtime.ask_all(
            lambda shard: shard.transactions,
            lambda shard, transactional_ids: list_transactions(shard, transactional_ids, wanted, now_ms),
        )

    def describe(self, transactional_id: str) -> Deferred[DescribedTransaction]:
        if not transactional_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_REQUEST))
        return self.runtime.ask(transactional_id, lambda shard: describe(shard, transactional_id))

    # Timeouts and expiry.

    def abort_timed_out(self) -> None:
        """Aborts transactions that have been open for longer than their producer's timeout."""
        now_ms = self._world.clock.now_ms()
        for shard in self.runtime.active_shards():
            state = shard.state
            for transactional_id in [
                open_id for open_id in state.ongoing if has_timed_out(state.transactions[open_id], now_ms)
            ]:
                logger.info("transaction of transactional id %s has timed out and is aborted", transactional_id)
                self._with_producer_id(transactional_id, partial(_timeout_decide, transactional_id), None).when_done(
                    _log_failure
                )

    def remove_expired(self) -> None:
        """Removes ids that were not used for `transactional.id.expiration.ms`."""
        now_ms = self._world.clock.now_ms()
        for shard in self.runtime.active_shards():
            for transactional_id in list(expired_ids(shard.state, now_ms)):
                shard.submit(partial(_decide_expiry, transactional_id)).when_done(_log_failure)

    # Steps that several requests share.

    def _check_init(self, request: InitProducerIdRequest) -> ProducerAttempt:
        config, transactional_id = self.context.config, request.transactional_id
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if request.enable_2pc and not config.transaction_two_phase_commit_enable:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.keep_prepared_txn:
            # Kafka 4.3 does not support it either (KIP-939).
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        timeout_ms = request.transaction_timeout_ms
        if timeout_ms <= 0 or (timeout_ms > config.transaction_max_timeout_ms and not request.enable_2pc):
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        has_identity = request.producer_id != NEEDS_PRODUCER_ID.producer_id
        return ProducerAttempt(
            transactional_id,
            TIMEOUT_NEVER_MS if request.enable_2pc else timeout_ms,
            ProducerIdentity(request.producer_id, request.producer_epoch) if has_identity else None,
        )

    def _with_producer_id(
        self, transactional_id: str, make_decide: Callable[[int | None], TransactionDecide[R]], needs_id: R
    ) -> Deferred[R]:
        """Decides without a new producer id, and again with one if the decision needs it."""

        def with_id(producer_id: int) -> Deferred[R]:
            return self.runtime.submit(transactional_id, make_decide(producer_id))

        def on_first(first: R) -> Deferred[R]:
            return self._new_producer_id().and_then(with_id) if first is needs_id else Deferred.resolved(first)

        return self.runtime.submit(transactional_id, make_decide(None)).and_then(on_first)

    def _submit_after_the_end(
        self, transactional_id: str, decide: TransactionDecide[None], wait_ms: int
    ) -> Deferred[None]:
        """Waits briefly for the end of the previous transaction, whose markers are usually about to be written."""
        submitted = self.runtime.submit(transactional_id, decide)
        error = submitted.error
        if not isinstance(error, KafkaError) or error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            return submitted
        answer: Deferred[None] = Deferred()
        is_waiting = True

        def on_end_or_time() -> None:
            # The second of the two does nothing: the decision is submitted already.
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                timer.cancel()
                self.runtime.submit(transactional_id, decide).pass_to(answer)

        # At the end of the turn: the record that ends the transaction is being replayed when it wakes.
        shard = self.runtime.shard_of(transactional_id).state
        scheduler = self._world.scheduler
        if not shard.wake_at_end(
            transactional_id, lambda: scheduler.call_soon(on_end_or_time), waiting_max=WAITING_MAX
        ):
            return submitted
        timer = scheduler.call_later(wait_ms / 1000, on_end_or_time)
        return answer

    def _send_markers(self, shard: TransactionShard, transaction: Transaction) -> None:
        assert transaction.status in PREPARED
        self._markers.send(
            Marker(
                shard_index=shard.index,
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                prepared_ms=transaction.last_update_ms,
                is_commit=transaction.status is TransactionStatus.PREPARE_COMMIT,
                coordinator_epoch=self.runtime.shard_of(transaction.transactional_id).partition.leader_epoch,
                transaction_version=transaction.client_version,
                partitions=transaction.partitions,
            )
        )

    def _on_written(self, marker: Marker) -> None:
        """Every partition has its marker."""

        def decide(shard: TransactionShard, now_ms: int) -> Decision[None]:
            return decide_complete(
                shard,
                marker.transactional_id,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                prepared_ms=marker.prepared_ms,
                now_ms=now_ms,
            )

        def on_completed(completed: Deferred[None]) -> None:
            if completed.error is None:
                return
            try:
                shard = self.runtime.shard_of(marker.transactional_id)
            except KafkaError:
                # The next coordinator loads the prepared transaction and completes it.
                return
            submit_again_later(shard.state, ("complete", marker.transactional_id), decide)

        self.runtime.submit_to(marker.shard_index, decide).when_done(on_completed)


def _timeout_decide(transactional_id: str, fresh_id: int | None) -> TransactionDecide[EndResult]:
    return lambda shard, now_ms: decide_timeout(shard, transactional_id, fresh_id, now_ms)


def _decide_expiry(transactional_id: str, shard: TransactionShard, now_ms: int) -> Decision[None]:
    return decide_expiry(shard, transactional_id, now_ms)


def _log_failure(done: Deferred[Any]) -> None:
    if done.error is not None:
        unexpected = None if isinstance(done.error, KafkaError) else done.error
        logger.warning(
            "a timed-out transaction or an expired id could not be cleaned up: %s", done.error, exc_info=unexpected
        )
