"""The example applications of `examples/client` do what they say."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.client import address_book, alerts, country_counter, database_offsets, moving_average
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingConsumer
from ottla.client.producer import Producer


async def fill(bootstrap: str, topic: str, rows: list[tuple[Any, Any]], **serializers: str) -> None:
    async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        await admin.topics.create([NewTopic(name=topic, partitions=3, replication_factor=1)])
    config = {"bootstrap.servers": bootstrap, **{f"{side}.serializer": name for side, name in serializers.items()}}
    async with Producer(config) as producer:
        for key, value in rows:
            await producer.send(topic, value, key)


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_customers_by_country(client_bootstrap: str) -> None:
    rows = [(None, country) for country in ["at", "de", "at", "fr", "de", "at"] * 5]

    async def whole() -> None:
        await fill(client_bootstrap, country_counter.TOPIC, rows, value="string")
        async with asyncio.timeout(30):
            found = await country_counter.count(client_bootstrap, until=30)
        assert found == {"at": 15, "de": 10, "fr": 5}

    asyncio.run(whole())


def test_a_moving_average_ends_in_order(client_bootstrap: str) -> None:
    prices = [(b"k", float(number)) for number in range(20)]
    asyncio.run(fill(client_bootstrap, moving_average.TOPIC, prices, value="double"))
    with BlockingConsumer(moving_average.configuration(client_bootstrap)) as consumer:
        stopper = threading.Thread(
            target=lambda: (
                wait_for(lambda: sum(max(consumer.position(one), 0) for one in consumer.assignment) == 20),
                consumer.wakeup(),
            )
        )
        stopper.start()
        told = moving_average.averages(consumer)
        stopper.join()
        committed = consumer.committed(consumer.partitions(moving_average.TOPIC))
    assert told[-1] == pytest.approx(14.5)
    assert sum(one.offset for one in committed.values()) == 20


def test_offsets_in_a_database_count_every_payment_once(client_bootstrap: str, tmp_path: Path) -> None:
    generator = random.Random(5)
    payments = [(f"account-{generator.randrange(7)}", generator.randrange(1_000)) for _ in range(300)]
    asyncio.run(fill(client_bootstrap, database_offsets.TOPIC, payments, key="string", value="long"))
    path = str(tmp_path / "payments.db")
    database_offsets.run(client_bootstrap, database_offsets.Sink(path), until=100)
    # The application is killed before a transaction of its database ends, and starts again.
    broken = database_offsets.Sink(path)
    broken.database.execute("insert into totals values ('lost', 1)")
    broken.database.rollback()
    broken.database.close()
    sink = database_offsets.Sink(path)
    done = sink.database.execute("select sum(next) from offsets").fetchone()[0]
    database_offsets.run(client_bootstrap, sink, until=300 - done)
    expected: dict[str, int] = {}
    for account, amount in payments:
        expected[account] = expected.get(account, 0) + amount
    assert sink.totals() == expected


def test_critical_alerts_have_a_partition_of_their_own(client_bootstrap: str) -> None:
    async def whole() -> None:
        await fill(client_bootstrap, alerts.TOPIC, [])
        some = [alerts.Alert(number, "MINOR", "dirt") for number in range(20)]
        found = await alerts.send(client_bootstrap, [*some, alerts.Alert(3, alerts.CRITICAL, "fire")])
        assert {one.partition for one in found[:-1]} == {0, 1}
        assert found[-1].partition == 2

    asyncio.run(whole())


def test_an_address_book(client_bootstrap: str) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30):
            await address_book.main(client_bootstrap)
            assert await address_book.read(client_bootstrap) == {"ada": {"city": "Paris"}}

    asyncio.run(whole())
