"""The example applications of `examples/client` do what their descriptions promise."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from examples.client import (
    address_book,
    alerts,
    clicks,
    collection,
    country_counter,
    customers_avro,
    database_offsets,
    health_trends,
    large_customer,
    large_payments,
    moving_average,
    notifications,
    regional_pricing,
)
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingConsumer
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.model.errors import KafkaError
from tests.support.registries import registry_process


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

    async def scenario() -> None:
        await fill(client_bootstrap, country_counter.TOPIC, rows, value="string")
        async with asyncio.timeout(30):
            counts = await country_counter.count(client_bootstrap, until=30)
        assert counts == {"at": 15, "de": 10, "fr": 5}

    asyncio.run(scenario())


def test_a_moving_average_ends_in_order(client_bootstrap: str) -> None:
    prices = [(b"k", float(number)) for number in range(20)]
    asyncio.run(fill(client_bootstrap, moving_average.TOPIC, prices, value="double"))
    with BlockingConsumer(moving_average.configuration(client_bootstrap)) as consumer:
        stopper = threading.Thread(
            target=lambda: (
                wait_for(lambda: sum(max(consumer.position(partition), 0) for partition in consumer.assignment) == 20),
                consumer.wakeup(),
            )
        )
        stopper.start()
        averages = moving_average.averages(consumer)
        stopper.join()
        committed = consumer.committed(consumer.partitions(moving_average.TOPIC))
    assert averages[-1] == pytest.approx(14.5)
    assert sum(commit.offset for commit in committed.values()) == 20


def test_offsets_in_a_database_count_every_payment_once(client_bootstrap: str, tmp_path: Path) -> None:
    generator = random.Random(5)
    payments = [(f"account-{generator.randrange(7)}", generator.randrange(1_000)) for _ in range(300)]
    asyncio.run(fill(client_bootstrap, database_offsets.TOPIC, payments, key="string", value="long"))
    path = str(tmp_path / "payments.db")
    database_offsets.run(client_bootstrap, database_offsets.Sink(path), until=100)
    # The application is killed before a transaction of its database ends, and is restarted.
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
    async def scenario() -> None:
        await fill(client_bootstrap, alerts.TOPIC, [])
        minor = [alerts.Alert(number, "MINOR", "dirt") for number in range(20)]
        metadata = await alerts.send(client_bootstrap, [*minor, alerts.Alert(3, alerts.CRITICAL, "fire")])
        assert {record.partition for record in metadata[:-1]} == {0, 1}
        assert metadata[-1].partition == 2

    asyncio.run(scenario())


def test_an_address_book(client_bootstrap: str) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(30):
            await address_book.main(client_bootstrap)
            assert await address_book.read(client_bootstrap) == {"ada": {"city": "Paris"}}

    asyncio.run(scenario())


def test_customers_in_avro_whose_schema_evolves(client_bootstrap: str) -> None:
    @dataclass
    class Customer:
        id: int
        name: str

    async def scenario(registry: str) -> None:
        async with asyncio.timeout(60):
            await customers_avro.write(client_bootstrap, registry, [Customer(1, "Ada")])
            await customers_avro.write(
                client_bootstrap, registry, [customers_avro.Customer(2, "Grace", "g@example.com")]
            )
            customers = await customers_avro.read(client_bootstrap, registry, count=2)
        assert sorted(customers, key=lambda customer: customer.id) == [
            customers_avro.Customer(1, "Ada", None),
            customers_avro.Customer(2, "Grace", "g@example.com"),
        ]

    asyncio.run(fill(client_bootstrap, customers_avro.TOPIC, []))
    with registry_process(client_bootstrap) as registry:
        asyncio.run(scenario(registry.url))


def test_health_trends_know_their_places(client_bootstrap: str) -> None:
    asyncio.run(fill(client_bootstrap, health_trends.TOPIC, []))
    places = health_trends.send(client_bootstrap, [health_trends.Trend("pump", hour, 0.5) for hour in range(5)])
    assert len({(place.partition, place.offset) for place in places}) == 5
    assert all(place.offset >= 0 for place in places)


def test_a_reader_of_clicks_is_stopped_by_another_thread(client_bootstrap: str) -> None:
    rows = [(page, b"") for page in ["/", "/cart", "/"] * 10]
    asyncio.run(fill(client_bootstrap, clicks.TOPIC, rows, key="string"))
    reader = clicks.ClickReader(client_bootstrap)
    reader.start()
    wait_for(lambda: reader.clicks.total() == 30)
    reader.stop()
    assert reader.clicks == {"/": 20, "/cart": 10}
    with BlockingConsumer({"bootstrap.servers": client_bootstrap, "group.id": "click-reader"}) as consumer:
        committed = consumer.committed(consumer.partitions(clicks.TOPIC))
    assert sum(commit.offset for commit in committed.values()) == 30


def test_mails_about_large_payments(client_bootstrap: str) -> None:
    payments = [("ada", 10_000), ("grace", 10_001), ("ada", 5), ("linus", 250_000)]
    sent: list[Any] = []

    def fails_once(mail: Any) -> None:
        sent.append(mail)
        if len(sent) == 1:
            raise OSError("the mail server is away")

    async def scenario() -> None:
        await fill(client_bootstrap, large_payments.TOPIC, payments, key="string", value="long")
        async with asyncio.timeout(60):
            with pytest.raises(OSError, match="away"):
                await large_payments.run(client_bootstrap, fails_once)
            second = asyncio.ensure_future(large_payments.run(client_bootstrap, fails_once))
            while len({mail["To"] for mail in sent[1:]}) < 2:
                await asyncio.sleep(0.01)
            second.cancel()
            await asyncio.wait([second])

    asyncio.run(scenario())
    # The mail that failed is sent again, with the same id.
    assert {mail["To"] for mail in sent} == {"grace@example.com", "linus@example.com"}
    assert sent[0]["Message-ID"] in [mail["Message-ID"] for mail in sent[1:]]
    assert {mail["Subject"] for mail in sent} == {"A payment of $10,001", "A payment of $250,000"}


def test_notifications_follow_preferences(client_bootstrap: str) -> None:
    async def scenario() -> list[tuple[str, str]]:
        wishes = [
            ("ada", "digest"),
            ("bob", "never"),
            ("ada", "now"),
            ("eve", "digest"),
            ("zoe", "never"),
            ("zoe", None),
        ]
        await fill(client_bootstrap, notifications.PREFERENCES, wishes, key="string", value="string")
        await fill(client_bootstrap, notifications.NOTIFICATIONS, [])
        messages = [("ada", "shipped"), ("bob", "shipped"), ("eve", "paid"), ("eve", "shipped"), ("zoe", "paid")]
        await fill(client_bootstrap, notifications.MESSAGES, messages, key="string", value="string")
        async with asyncio.timeout(60):
            await notifications.serve(client_bootstrap, until=5)
            config = {"bootstrap.servers": client_bootstrap, "auto.offset.reset": "earliest"}
            committed = {"isolation.level": "read_committed", "key.deserializer": "string"}
            async with Consumer({**config, **committed, "value.deserializer": "string"}) as consumer:
                partitions = await consumer.partitions(notifications.NOTIFICATIONS)
                await consumer.assign(partitions)
                ends = await consumer.end_offsets(partitions)
                received: list[tuple[str, str]] = []
                while any(consumer.position(partition) < end for partition, end in ends.items()):
                    received += [(record.key, record.value) for record in await consumer.poll(100)]
                return received

    received = asyncio.run(scenario())
    assert [text for user, text in received if user == "ada"] == [notifications.decorate("shipped")]
    assert {user for user, _ in received} == {"ada", "eve", "zoe"}
    assert [line for user, text in received if user == "eve" for line in text.split("\n")[1:-1]] == ["paid", "shipped"]


def test_activity_metrics_and_logs_are_collected(client_bootstrap: str) -> None:
    for topic in (collection.ACTIVITY, collection.METRICS, collection.LOGS):
        asyncio.run(fill(client_bootstrap, topic, []))
    collector = collection.Collector(client_bootstrap, host="web-1")
    logger = logging.getLogger("shop")
    handler = collection.TopicHandler(collector)
    logger.addHandler(handler)
    logger.warning("the shelf is %s", "empty")
    logger.removeHandler(handler)
    for page in ("/", "/cart", "/checkout"):
        collector.activity("ada", page)
    collector.metric("queue-length", 17)
    collector.close()
    assert collector.lost == 0
    collector.activity("ada", "/late")
    assert collector.lost == 1
    config = {"bootstrap.servers": client_bootstrap, "group.id": "dashboard", "auto.offset.reset": "earliest"}
    records: list[Any] = []
    with BlockingConsumer({**config, "value.deserializer": "json"}) as consumer:
        consumer.subscribe([collection.ACTIVITY, collection.METRICS, collection.LOGS])
        while len(records) < 5:
            records += consumer.poll(100)
    by_topic = {
        topic: [record for record in records if record.topic == topic] for topic in {record.topic for record in records}
    }
    assert [record.value["page"] for record in by_topic[collection.ACTIVITY]] == ["/", "/cart", "/checkout"]
    assert [record.key for record in by_topic[collection.METRICS]] == [b"web-1"]
    assert [record.value["text"] for record in by_topic[collection.LOGS]] == ["the shelf is empty"]


def test_prices_follow_the_sales_of_regions(client_bootstrap: str) -> None:
    async def scenario() -> dict[str, float]:
        await fill(client_bootstrap, regional_pricing.PRICES, [])
        await fill(client_bootstrap, "europe.sales", [("tea", 5), ("tea", 20), ("salt", 9)], key="string", value="long")
        await fill(client_bootstrap, "asia.sales", [("tea", 1_000)], key="string", value="long")
        config = {"bootstrap.servers": client_bootstrap, "auto.offset.reset": "earliest"}
        texts = {"key.deserializer": "string", "value.deserializer": "double"}
        prices: dict[str, float] = {}
        async with asyncio.timeout(60), Consumer({**config, **texts}) as consumer:
            await regional_pricing.run(client_bootstrap, until=4)
            await consumer.assign(await consumer.partitions(regional_pricing.PRICES))
            while len(prices) < 2:
                prices.update({record.key: record.value for record in await consumer.poll(100)})
        return prices

    assert asyncio.run(scenario()) == {"europe/tea": 102.01, "asia/tea": 200.0}


def test_a_large_customer_is_alone_in_the_last_partition(client_bootstrap: str) -> None:
    async def scenario() -> None:
        await fill(client_bootstrap, large_customer.TOPIC, [])
        names: list[str | None] = [f"customer-{number}" for number in range(20)]
        metadata = await large_customer.send(client_bootstrap, [*names, "banana"])
        assert {record.partition for record in metadata[:-1]} == {0, 1}
        assert metadata[-1].partition == 2
        with pytest.raises(KafkaError, match="without a customer"):
            await large_customer.send(client_bootstrap, [None])

    asyncio.run(scenario())
