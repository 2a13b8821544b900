"""Transactions for administrators (KIP-664): open transactions, and the end of hanging ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.client.admin.each import ask_each
from ottla.client.cluster import Cluster
from ottla.client.errors import check, error_of
from ottla.client.leaders import ask_leaders, by_topic
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

__all__ = ["DescribedTransaction", "FencedProducer", "ListedTransaction", "ProducerState", "Transactions"]


class ListedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    # -1 if the producer has no open transaction in the partition.
    transaction_start_offset: int


class FencedProducer(NamedTuple):
    """The producer id and epoch that fence all earlier producers of a transactional id."""

    producer_id: int
    epoch: int


class Transactions:
    """`admin.transactions`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
        brokers: Iterable[int] | None = None,
    ) -> list[ListedTransaction]:
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )
        answers: dict[int, ListTransactionsResponse]
        if brokers is None:
            answers = await self._cluster.ask_brokers(request)
        else:
            answers = {node_id: await self._cluster.ask_broker(node_id, request) for node_id in brokers}
        for answer in answers.values():
            check(answer.error_code)
        transactions = [
            ListedTransaction(state.transactional_id, node_id, state.producer_id, state.transaction_state)
            for node_id, answer in answers.items()
            for state in answer.transaction_states
        ]
        return sorted(transactions)

    async def describe_each(self, transactional_ids: Iterable[str]) -> dict[str, DescribedTransaction | KafkaError]:
        """The transaction of every transactional id, or its error."""
        return await ask_each(transactional_ids, self.describe)

    async def describe(self, transactional_id: str) -> DescribedTransaction:
        cluster = self._cluster
        response: DescribeTransactionsResponse = await cluster.ask_coordinator(
            cluster.TRANSACTION,
            transactional_id,
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            lambda answer: [state.error_code for state in answer.transaction_states],
        )
        state = response.transaction_states[0]
        check(state.error_code)
        return DescribedTransaction(
            transactional_id,
            await cluster.coordinator(cluster.TRANSACTION, transactional_id),
            state.producer_id,
            state.producer_epoch,
            state.transaction_state,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms,
            tuple(TopicPartition(topic.topic, partition) for topic in state.topics for partition in topic.partitions),
        )

    async def producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None
    ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        """The active producers of partitions, from their leaders or a given replica."""

        async def ask(
            node_id: int, node_partitions: list[TopicPartition]
        ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
            request = DescribeProducersRequest(
                topics=[
                    TopicRequest(name=name, partition_indexes=numbers)
                    for name, numbers in by_topic(node_partitions).items()
                ]
            )
            response: DescribeProducersResponse = await self._cluster.ask_node(node_id, request)
            return {
                TopicPartition(topic.name, partition.partition_index): error_of(
                    partition.error_code, partition.error_message
                )
                or [
                    ProducerState(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.coordinator_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.current_txn_start_offset,
                    )
                    for producer in partition.active_producers
                ]
                for topic in response.topics
                for partition in topic.partitions
            }

        if broker is not None:
            return await ask(broker, list(partitions))
        return await ask_leaders(self._cluster, partitions, ask)

    async def abort(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Writes an abort marker to a partition, for a transaction that its coordinator does not know any more."""

        async def ask(node_id: int, node_partitions: list[TopicPartition]) -> dict[TopicPartition, bool | KafkaError]:
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
                    for name, numbers in by_topic(node_partitions).items()
                ],
            )
            response: WriteTxnMarkersResponse = await self._cluster.ask_node(
                node_id, WriteTxnMarkersRequest(markers=[marker])
            )
            return {
                TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code) or True
                for result in response.markers
                for topic in result.topics
                for partition in topic.partitions
            }

        answer = (await ask_leaders(self._cluster, [partition], ask))[partition]
        if isinstance(answer, KafkaError):
            raise answer

    async def terminate(self, transactional_id: str) -> None:
        """Fences the producer of a transactional id, which aborts its open transaction."""
        await self._fence(transactional_id)

    async def fence(self, transactional_ids: Iterable[str]) -> dict[str, FencedProducer | KafkaError]:
        """Fences the producers of transactional ids: the new producer id and epoch of each, or its error."""
        return await ask_each(transactional_ids, self._fence)

    async def _fence(self, transactional_id: str) -> FencedProducer:
        # Apache Kafka uses the transaction time-out as time-out of the replication, so it must not be too short.
        timeout_ms = self._cluster.settings.request_timeout_ms

        async def attempt() -> FencedProducer:
            response: InitProducerIdResponse = await self._cluster.ask_coordinator(
                self._cluster.TRANSACTION,
                transactional_id,
                InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms),
                lambda answer: [answer.error_code],
            )
            check(response.error_code)
            return FencedProducer(response.producer_id, response.producer_epoch)

        # Retried while the coordinator is loading or completes the last transaction.
        return await self._cluster.retry(attempt)
