"""Transactions of a task, held by the worker's driver and shared with the Spark task that writes the rows.

The driver begins and ends a transaction. In between a Spark task writes rows with the same producer id and epoch
(`Producer.join_transaction`), and the driver adds the offsets. So a batch becomes visible as a whole, with its offsets,
or not at all. The end of a transaction raises the epoch (KIP-890): brokers refuse late writes of a previous batch. A
worker that takes the task over fences this worker by initialising the transactional id.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ottla.client.admin.groups import CommittedOffset
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.producer import Producer, ProducerSettings
from ottla.connect.api import ConnectError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["FencedError", "TaskTransactions"]

logger = logging.getLogger(__name__)

_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class FencedError(ConnectError):
    """Another worker runs this task. A retry would fence that worker."""

    is_final = True


class TaskTransactions:
    def __init__(self, cluster: Cluster, transactional_id: str, *, timeout_ms: int = 300_000) -> None:
        self._cluster = cluster
        self._settings = ProducerSettings(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, linger_ms=0
        )
        self._producer: Producer | None = None
        self._fresh = False
        self._open = False
        self._fenced = False

    @property
    def transactional_id(self) -> str:
        assert self._settings.transactional_id is not None
        return self._settings.transactional_id

    async def open(self) -> None:
        """Fences the previous owner of the task; after a failure, recovers the producer unless it was fenced."""
        try:
            if self._producer is None:
                producer = Producer(self._cluster, self._settings)
                await producer.init_transactions()
                self._producer = producer
            else:
                await self._producer.renew_transactions()
        except KafkaError as error:
            raise self._explained(error) from error
        self._fresh, self._open = True, False

    async def begin(self) -> None:
        assert self._producer is not None
        if not self._fresh and not await self._producer.transactions_raise_epoch():
            # An old cluster: only InitProducerId raises the epoch, so that late writes are refused.
            await self.open()
        self._fresh = False
        self._producer.begin_transaction()
        self._open = True

    def share(self) -> tuple[int, int]:
        """The producer id and epoch with which a Spark task writes in this transaction."""
        assert self._producer is not None
        return self._producer.share_transaction()

    async def send(self, topic: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Writes records of the driver; returns when they are acknowledged."""
        assert self._producer is not None
        try:
            deliveries = [await self._producer.send(topic, value, key) for key, value in records]
            for delivery in deliveries:
                await delivery
        except KafkaError as error:
            raise self._explained(error) from error

    async def send_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        assert self._producer is not None
        try:
            await self._producer.send_offsets(group_id, offsets)
        except KafkaError as error:
            raise self._explained(error) from error

    async def commit(self) -> None:
        assert self._producer is not None
        try:
            await self._producer.commit_transaction()
            self._open = False
        except (KafkaError, ClientError) as error:
            raise self._explained(error) from error

    async def abort(self) -> None:
        """Aborts the transaction. If the producer fails to do so, the next `open` replaces it."""
        if self._producer is None or not self._open:
            return
        self._open = False
        try:
            await self._producer.abort_transaction()
        except (KafkaError, ClientError) as error:
            raise self._explained(error) from error

    async def give_up(self) -> bool:
        """Aborts after another failure, without raising. Returns True if the transaction is known to be aborted.

        A commit without an answer may have succeeded; then the transaction cannot be aborted any more.
        """
        try:
            await self.abort()
        except (KafkaError, ClientError) as error:
            logger.info("Transaction of %s was not aborted: %s", self.transactional_id, error)
            return False
        return True

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                if self._open:
                    self._open = False
                    await producer.abort_transaction()
                await producer.close()
            except (KafkaError, ClientError):
                # The next `open` of the transactional id aborts it.
                return

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, KafkaError) and error.code in _FENCED:
            self._fenced = True
        if self._fenced:
            return FencedError(f"Another worker runs this task now ({error}).")
        return error
