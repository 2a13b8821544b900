"""Applications that produce with `ottla.client`: records with every guarantee of the settings, and transactions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ottla.client.cluster import Cluster
from ottla.client.producer import Producer, ProducerSettings, RecordMetadata
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.compression import Codec
from ottla.sim.history import Outcome, Sent, Transaction
from ottla.sim.workloads.applications import FAILURES, Application
from ottla.sim.workloads.workload import Stage

__all__ = ["ApplicationProducer", "ApplicationTransactions", "TransactionalApplication"]

CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP)


class ApplicationProducer(Application):
    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        settings: ProducerSettings,
        pause_seconds: float,
        records_max: int,
        is_killed: bool,
    ) -> None:
        super().__init__(stage, name, is_killed=is_killed)
        self._partitions = partitions
        self._settings = settings
        self._pause_seconds = pause_seconds
        self._records_max = records_max
        self._number = 0

    async def main(self) -> None:
        cluster = self.connect()
        producer = Producer(cluster, self._settings)
        while not self.stage.is_ending:
            for _ in range(self.random.randint(1, self._records_max)):
                await self._send(producer, self.random.choice(self._partitions))
            await self.pause(self._pause_seconds)
        await producer.close()
        await cluster.close()

    async def _send(self, producer: Producer, partition: TopicPartition) -> None:
        self._number += 1
        sent = Sent(
            partition=partition,
            producer=self.name,
            number=self._number,
            acks=self._settings.acks,
            is_idempotent=self._settings.uses_sequences,
            sent_us=self.now_us,
            session=self.life,
        )
        self.history.sent.append(sent)
        padding = bytes(self.random.choice((0, 0, 500)))
        try:
            await producer.send(
                partition.topic,
                sent.value + padding,
                partition=partition.partition,
                timestamp_ms=self.now_ms,
                on_delivery=partial(self._on_delivery, sent),
            )
        except FAILURES:
            self.count("client: send refused")

    def _on_delivery(self, sent: Sent, metadata: RecordMetadata, error: Exception | None) -> None:
        if error is None:
            sent.offset = metadata.offset
        name = error.code.name if isinstance(error, KafkaError) else type(error).__name__
        self.count("client: record acknowledged" if error is None else f"client: record failed, {name}")


class TransactionalApplication(Application):
    """The base of applications with transactions: after an error a producer aborts, or a new one takes its place."""

    def __init__(self, stage: Stage, name: str, *, is_killed: bool) -> None:
        super().__init__(stage, name, is_killed=is_killed)
        stage.transactional_hosts.add(self.client.host)

    async def new_producer(self, cluster: Cluster) -> Producer:
        settings = ProducerSettings(
            transactional_id=self.name, linger_ms=2, request_timeout_ms=5_000, delivery_timeout_ms=20_000
        )
        while True:
            producer = Producer(cluster, settings)
            try:
                await producer.init_transactions()
            except FAILURES:
                self.count("client: no transactions yet")
                await producer.close()
                await self.pause(0.5)
            else:
                return producer

    async def recovered(self, cluster: Cluster, producer: Producer) -> Producer:
        """A producer that may begin a transaction."""
        try:
            await producer.abort_transaction()
        except FAILURES:
            await producer.close()
            return await self.new_producer(cluster)
        return producer


class ApplicationTransactions(TransactionalApplication):
    """Transactions over several partitions."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        pause_seconds: float,
        is_killed: bool,
    ) -> None:
        super().__init__(stage, name, is_killed=is_killed)
        self._partitions = partitions
        self._pause_seconds = pause_seconds
        self._number = 0
        self._transaction: Transaction | None = None

    async def main(self) -> None:
        # The next producer aborts the transaction of a life that was killed, unless its end was under way.
        self._give_up()
        cluster = self.connect()
        producer = await self.new_producer(cluster)
        while not self.stage.is_ending:
            self._number += 1
            transaction = self._transaction = Transaction(producer=self.name, number=self._number)
            self.history.transactions.append(transaction)
            try:
                await self._transact(producer, transaction)
            except FAILURES as error:
                self.client.kernel.trace("client: transaction failed", f"{self.name}/{self._number}: {error!r}")
                self._give_up()
                producer = await self.recovered(cluster, producer)
            self.count(f"client: transaction {transaction.outcome.value}")
            await self.pause(self._pause_seconds)
        await producer.close()
        await cluster.close()

    def _give_up(self) -> None:
        if self._transaction is not None and self._transaction.outcome is Outcome.OPEN:
            self._transaction.outcome = Outcome.ABORTED

    async def _transact(self, producer: Producer, transaction: Transaction) -> None:
        producer.begin_transaction()
        for index in range(self.random.randint(1, 5)):
            partition = self.random.choice(self._partitions)
            value = f"{self.name}/{transaction.number}/{index}".encode()
            transaction.records.append((partition, value))
            await producer.send(partition.topic, value, partition=partition.partition, timestamp_ms=self.now_ms)
            if self.random.random() < 0.3:
                await self.pause(0.02)
        if self.random.random() < 0.7:
            # From here on the transaction may be committed, even if the answer is lost.
            transaction.outcome = Outcome.UNKNOWN
            await producer.commit_transaction()
            transaction.outcome = Outcome.COMMITTED
        else:
            await producer.abort_transaction()
            transaction.outcome = Outcome.ABORTED
