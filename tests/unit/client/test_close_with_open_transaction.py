"""The close of a producer aborts its open transaction, as in Apache Kafka: readers would wait for its time-out."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.client.producer import Producer, ProducerSettings
from ottla.client.producer.transactions import TransactionState
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from tests.unit.client.test_transactions import Cluster

ONE = TopicPartition("t", 0)
END = "EndTxnRequest"


def new_producer(cluster: Cluster) -> Producer:
    bootstrap = ClientSettings(bootstrap_servers=parse_bootstrap("localhost:1"))
    producer = Producer(bootstrap, ProducerSettings(transactional_id="x"))
    anything: Any = cluster
    producer._transactions._cluster = anything
    return producer


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fails", [False, True])
def test_an_open_transaction_is_aborted(version: int, fails: bool) -> None:
    async def scenario() -> None:
        cluster = Cluster(version=version)
        async with new_producer(cluster) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer._transactions.add_partitions([ONE])
            if fails:
                producer.spoil_transaction(KafkaError(ErrorCode.INVALID_RECORD))
        assert cluster.asked.count(END) == 1

    asyncio.run(scenario())


def test_the_transaction_of_another_process_is_not_aborted() -> None:
    async def scenario() -> None:
        cluster = Cluster(version=2)
        async with new_producer(cluster) as producer:
            producer.join_transaction(5, 0)
            await producer._transactions.add_partitions([ONE])
        assert END not in cluster.asked

    asyncio.run(scenario())


def test_a_close_without_a_flush_does_not_wait_for_an_abort() -> None:
    async def scenario() -> None:
        cluster = Cluster(version=2)
        producer = new_producer(cluster)
        await producer.init_transactions()
        producer.begin_transaction()
        await producer._transactions.add_partitions([ONE])
        await producer.close(flush=False)
        assert END not in cluster.asked

    asyncio.run(scenario())


def test_an_abort_that_fails_does_not_fail_the_close() -> None:
    async def scenario() -> None:
        cluster = Cluster(version=2)
        producer = new_producer(cluster)
        await producer.init_transactions()
        producer.begin_transaction()
        await producer._transactions.add_partitions([ONE])
        cluster.epoch += 1
        await producer.close()
        assert cluster.asked.count(END) == 1

    asyncio.run(scenario())


def test_a_prepared_transaction_whose_commit_failed_is_not_aborted() -> None:
    """The commit was decided on elsewhere: a later producer repeats it."""

    async def scenario() -> None:
        cluster = Cluster(version=2)
        bootstrap = ClientSettings(bootstrap_servers=parse_bootstrap("localhost:1"))
        producer = Producer(bootstrap, ProducerSettings(transactional_id="x", two_phase_commit=True))
        transactions, anything = producer._transactions, cast(Any, cluster)
        transactions._cluster = anything
        transactions._identity.set(5, cluster.epoch)
        transactions.state = TransactionState.READY
        producer.begin_transaction()
        await transactions.add_partitions([ONE])
        prepared = await producer.prepare_transaction()

        def refuse() -> None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

        cluster.on_end = refuse
        with pytest.raises(KafkaError):
            await producer.complete_transaction(prepared)
        await producer.close()
        assert cluster.asked.count(END) == 1

    asyncio.run(scenario())
