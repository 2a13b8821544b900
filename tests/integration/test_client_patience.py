"""Clients that wait: for records, for a topic or partition that is created later, and for an unreachable cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import ottla.testing
from ottla.client import cluster as clusters
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap

NOBODY = ClientSettings(bootstrap_servers=parse_bootstrap("127.0.0.1:9"), pushes_metrics=False)
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
# In sequence the sends would need far longer than this.
SENDS = 400
BLOCK = ProducerSettings(max_block_ms=300)
SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.cluster(settings=SETTINGS) as nodes:
        yield nodes.bootstrap


async def create(bootstrap: str, name: str) -> None:
    async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        await admin.topics.create([NewTopic(name=name, partitions=1, replication_factor=1)])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_waits_for_records_stays_in_the_group(bootstrap: str, protocol: str) -> None:
    """max.poll.interval.ms is the time between two polls."""

    async def scenario() -> None:
        topic = f"t-{protocol}"
        await create(bootstrap, topic)
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": f"g-{protocol}",
            "group.protocol": protocol,
            "max.poll.interval.ms": 500,
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            settings |= {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}
        lost: list[object] = []
        async with Consumer(settings) as consumer:
            await consumer.subscribe([topic], on_revoked=lost.append, on_lost=lost.append)
            while not consumer.assignment:
                await consumer.poll(200)
            member = consumer.member
            await consumer.poll(2_500)
            assert not lost
            assert consumer.member == member

    asyncio.run(scenario())


def test_a_topic_that_is_created_after_the_subscription_of_a_classic_group(bootstrap: str) -> None:
    async def scenario() -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "group.protocol": "classic",
            "allow.auto.create.topics": False,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 6000,
        }
        async with Consumer(settings) as consumer:
            await consumer.subscribe(["later"])
            while consumer.member is None or consumer.member.generation < 1:
                await consumer.poll(200)
            await create(bootstrap, "later")
            async with asyncio.timeout(SECONDS_MAX):
                while not consumer.assignment:
                    await consumer.poll(200)

    asyncio.run(scenario())


def test_a_partition_that_was_added_since_the_producer_looked(bootstrap: str) -> None:
    async def scenario() -> None:
        config = {"bootstrap.servers": bootstrap}
        await create(bootstrap, "grows")
        async with AdminClient(config) as admin, Producer(config) as producer:
            await producer.send_and_wait("grows", b"1", partition=0)
            await admin.topics.grow({"grows": 3})
            assert (await producer.send_and_wait("grows", b"2", partition=2)).partition == 2

    asyncio.run(scenario())


UNSENT: list[dict[str, Any]] = [
    {"value": bytes(2_000_000)},
    {"value": b"v", "partition": 77},
    {"value": 5},
    {"value": b"v", "timestamp_ms": 1 << 64},
]


@pytest.mark.parametrize("unsent", UNSENT, ids=["too large", "no such partition", "no bytes", "no timestamp"])
def test_a_commit_tells_of_a_record_that_was_not_sent(bootstrap: str, unsent: dict[str, Any]) -> None:
    """An application that commits need not look at every future."""
    asyncio.run(create(bootstrap, "whole"))
    with BlockingProducer({"bootstrap.servers": bootstrap, "transactional.id": "x"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("whole", b"first")
        future = producer.send("whole", **unsent)
        producer.send("whole", b"last")
        with pytest.raises(ClientError, match="must be aborted"):
            producer.commit_transaction()
        assert future.exception(0) is not None
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("whole", b"again").result()
        producer.commit_transaction()


def test_sends_wait_side_by_side_for_a_cluster_that_is_away() -> None:
    async def scenario() -> list[Any]:
        async with Producer(NOBODY, BLOCK) as producer, asyncio.timeout(SECONDS_MAX):
            return await asyncio.gather(*[producer.send("t", b"v") for _ in range(SENDS)], return_exceptions=True)

    assert {type(error) for error in asyncio.run(scenario())} <= {ClientError, *ClientError.__subclasses__()}


@pytest.mark.timeout(SECONDS_MAX)
def test_the_close_of_a_blocking_producer_does_not_wait_for_each_record() -> None:
    producer = BlockingProducer(NOBODY, BLOCK)
    futures = [producer.send("t", b"v") for _ in range(SENDS)]
    producer.close()
    assert all(isinstance(future.exception(0), ClientError) for future in futures)


@pytest.mark.timeout(SECONDS_MAX)
def test_records_of_a_missing_topic_do_not_wait_one_after_the_other(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "CREATION_SECONDS_MAX", 0.4)
    producer = BlockingProducer({"bootstrap.servers": bootstrap, "max.block.ms": 800})
    futures = [producer.send("missing", b"v") for _ in range(SENDS)]
    producer.close()
    assert all(future.exception(0) is not None for future in futures)


@pytest.mark.parametrize("kind", [BlockingProducer, BlockingConsumer, BlockingAdmin])
def test_a_client_may_be_closed_twice(kind: Any) -> None:
    with kind({"bootstrap.servers": "127.0.0.1:9"}) as client:
        client.close()
