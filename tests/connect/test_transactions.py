"""A transaction that the driver of a task holds, and that other processes write to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.client.cluster import Cluster as Connections
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.connect.work.transactions import FencedError, TaskTransactions
from ottla.testing import Cluster, cluster
from tests.support.connect_reading import committed_values


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


def settings_of(broker: Cluster) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_bootstrap(broker.bootstrap))


async def write(broker: Cluster, transactions: TaskTransactions, topic: str, *values: bytes) -> None:
    """As a Spark task does, in a process that knows only the id and the epoch."""
    producer_id, epoch = transactions.share()
    async with Producer(
        settings_of(broker), ProducerSettings(transactional_id=transactions.transactional_id, linger_ms=0)
    ) as producer:
        producer.join_transaction(producer_id, epoch)
        for value in values:
            await producer.send(topic, value)
        await producer.flush()


async def shows(broker: Cluster, topic: str, *values: str) -> None:
    """Waits until the values are committed: a decided transaction stays open until its markers are written."""
    async with asyncio.timeout(90):
        while await committed_values(broker.bootstrap, topic) != list(values):
            pass


def test_rows_and_offsets_appear_together_batch_after_batch(broker: Cluster) -> None:
    async def run() -> None:
        connections = Connections(settings_of(broker))
        transactions = TaskTransactions(connections, "together-0")
        await transactions.open()
        for number in range(3):
            await transactions.begin()
            await write(broker, transactions, "together", b"%d" % number)
            await transactions.send("together-offsets", [(b"key", b"%d" % number)])
            await shows(broker, "together", *map(str, range(number)))
            await transactions.commit()
        await shows(broker, "together-offsets", "0", "1", "2")
        await transactions.begin()
        await write(broker, transactions, "together", b"never")
        await transactions.abort()
        await transactions.begin()
        await write(broker, transactions, "together", b"3")
        await transactions.commit()
        await transactions.close()
        await connections.close()
        await shows(broker, "together", "0", "1", "2", "3")

    asyncio.run(run())


def test_a_worker_that_lost_its_task_writes_nothing_more(broker: Cluster) -> None:
    async def run() -> None:
        connections = Connections(settings_of(broker))
        old, new = (TaskTransactions(connections, "zombie-0") for _ in range(2))
        await old.open()
        await old.begin()
        await write(broker, old, "zombie", b"of the old one")
        await new.open()
        with pytest.raises(FencedError):
            await old.send("zombie-offsets", [(b"key", b"old")])
        with pytest.raises(FencedError):
            await old.commit()
        with pytest.raises(FencedError):
            await old.open()
        await new.begin()
        await write(broker, new, "zombie", b"of the new one")
        await new.commit()
        await shows(broker, "zombie", "of the new one")
        for transactions in (old, new):
            await transactions.close()
        await connections.close()

    asyncio.run(run())


def test_a_failed_transaction_is_followed_by_another(broker: Cluster) -> None:
    async def run() -> None:
        connections = Connections(settings_of(broker))
        transactions = TaskTransactions(connections, "anew-0")
        await transactions.open()
        await transactions.begin()
        await write(broker, transactions, "anew", b"given up")
        await transactions.open()
        await transactions.begin()
        await write(broker, transactions, "anew", b"kept")
        await transactions.commit()
        await transactions.close()
        await connections.close()
        await shows(broker, "anew", "kept")

    asyncio.run(run())


def test_a_straggler_of_the_last_batch_is_refused(broker: Cluster) -> None:
    async def run() -> None:
        connections = Connections(settings_of(broker))
        transactions = TaskTransactions(connections, "late-0")
        await transactions.open()
        await transactions.begin()
        await write(broker, transactions, "late", b"in time")
        producer_id, epoch = transactions.share()
        await transactions.commit()
        await transactions.begin()
        async with Producer(
            settings_of(broker),
            ProducerSettings(
                transactional_id="late-0", linger_ms=0, delivery_timeout_ms=5_000, request_timeout_ms=5_000
            ),
        ) as straggler:
            straggler.join_transaction(producer_id, epoch)
            delivery = await straggler.send("late", b"too late")
            with pytest.raises(Exception, match=r"(?i)epoch|fenced|state"):
                await delivery
        await write(broker, transactions, "late", b"next")
        await transactions.commit()
        await transactions.close()
        await connections.close()
        await shows(broker, "late", "in time", "next")

    asyncio.run(run())
