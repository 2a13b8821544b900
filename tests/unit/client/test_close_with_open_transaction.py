"""The close of a producer aborts its open transaction, as in Apache Kafka: readers would wait for its time-out."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.client.errors import ClusterUnreachable
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


async def producer_in_transaction(cluster: Cluster) -> Producer:
    producer = new_producer(cluster)
    await producer.init_transactions()
    producer.begin_transaction()
    await producer._transactions.add_partitions([ONE])
    return producer


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fails", [False, True])
def test_an_open_transaction_is_aborted(version: int, fails: bool) -> None:
    async def scenario() -> None:
        cluster = Cluster(version=version)
        async with await producer_in_transaction(cluster) as producer:
            if fails:
                producer.spoil_transaction(KafkaError(ErrorCode.INVALID_RECORD))
        assert cluster.asked.count(END) == 1

    asyncio.run(scenario())


def test_a_second_close_waits_for_the_abort_of_the_first() -> None:
    """As in Apache Kafka, where every close waits for the thread that sends."""

    async def scenario() -> None:
        cluster = Cluster(version=2)
        producer = await producer_in_transaction(cluster)
        asked, answered = asyncio.Event(), asyncio.Event()
        answer = cluster.ask_coordinator

        async def ask_coordinator(*arguments: Any, **options: Any) -> Any:
            asked.set()
            await answered.wait()
            return await answer(*arguments, **options)

        cluster.ask_coordinator = ask_coordinator  # type: ignore[method-assign]
        first = asyncio.ensure_future(producer.close())
        await asked.wait()
        second = asyncio.ensure_future(producer.close())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not producer._closed
        answered.set()
        await asyncio.gather(first, second)
        assert producer._closed
        assert cluster.asked.count(END) == 1

    asyncio.run(scenario())


def test_a_close_without_a_flush_does_not_wait_for_another_close() -> None:
    async def scenario() -> None:
        cluster = Cluster(version=2)
        producer = await producer_in_transaction(cluster)
        asked, never = asyncio.Event(), asyncio.Event()

        async def ask_coordinator(*_: Any, **__: Any) -> None:
            asked.set()
            await never.wait()

        cluster.ask_coordinator = ask_coordinator  # type: ignore[method-assign]
        first = asyncio.ensure_future(producer.close())
        await asked.wait()
        await producer.close(flush=False)
        assert producer._closed
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    asyncio.run(scenario())


def test_the_abort_does_not_need_a_connection_at_the_moment_of_the_close() -> None:
    """While the brokers restart, the request to the coordinator is repeated until max.block.ms."""

    async def scenario() -> None:
        cluster = Cluster(version=2)
        producer = await producer_in_transaction(cluster)

        async def any_connection() -> None:
            raise ClusterUnreachable("Cannot reach the cluster")

        cluster.any_connection = any_connection  # type: ignore[method-assign]
        await producer.close()
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
        producer = await producer_in_transaction(cluster)
        await producer.close(flush=False)
        assert END not in cluster.asked

    asyncio.run(scenario())


def test_an_abort_that_fails_does_not_fail_the_close() -> None:
    async def scenario() -> None:
        cluster = Cluster(version=2)
        producer = await producer_in_transaction(cluster)
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
