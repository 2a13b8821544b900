"""Our clients push their metrics to Apache Kafka with a receiver (KIP-714), and Java's clients push theirs to Ottla."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ottla.testing
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.blocking import BlockingProducer
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.model.ids import TopicPartition
from ottla.wire.otlp import MetricPoint, decode_metrics
from tests.java.conftest import require_java
from tests.support.brokers import QuickKafka
from tests.support.java import PROGRAMS, ToolServer, compiled

INTERVAL_MS = 100


class Push(NamedTuple):
    client_id: str
    instance_id: str
    is_terminating: bool
    points: dict[str, MetricPoint]


class Receiver(NamedTuple):
    where: dict[str, Any]
    file: Path

    def pushes(self, client_id: str) -> list[Push]:
        pushes_of_client = []
        for line in self.file.read_text().splitlines() if self.file.exists() else []:
            client, instance_id, terminating, kind, payload = line.split(" ")
            assert kind == "OTLP"
            points = decode_metrics(bytes.fromhex(payload), points_max=1_000)
            if client == client_id:
                pushes_of_client.append(
                    Push(client, instance_id, terminating == "true", {point.name: point for point in points})
                )
        return pushes_of_client


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    require_java()
    directory = tmp_path_factory.mktemp("kafka")
    settings = {"metric.reporters": "TelemetryReceiver", "telemetry.test.file": str(directory / "pushes")}
    classes = compiled([PROGRAMS / "TelemetryReceiver.java"])
    with QuickKafka(directory, settings, classes=classes) as broker:
        where = {"bootstrap.servers": broker.bootstrap}
        run(subscribe(where, "wanted", "org.apache.kafka.producer.,org.apache.kafka.consumer.fetch.manager."))
        yield Receiver(where, directory / "pushes")


async def subscribe(where: dict[str, Any], client_id: str, metrics: str) -> None:
    resource = ConfigResource(ResourceType.CLIENT_METRICS, client_id)
    changes = {"metrics": metrics, "interval.ms": str(INTERVAL_MS), "match": f"client_id={client_id}.*"}
    async with AdminClient(where) as admin:
        done = await admin.configs.alter({resource: [ConfigChange(*change) for change in changes.items()]})
        assert done == {resource: None}


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


def test_a_producer_pushes_what_is_subscribed(receiver: Receiver) -> None:
    async def scenario() -> str:
        async with Producer({**receiver.where, "client.id": "wanted-producer"}) as producer:
            for number in range(10):
                await producer.send_and_wait("t", b"%d" % number)
            while not receiver.pushes("wanted-producer"):
                await asyncio.sleep(0.05)
            return str(await producer.client_instance_id())

    instance_id = run(scenario())
    pushes = receiver.pushes("wanted-producer")
    assert {push.instance_id for push in pushes} == {instance_id}
    assert [push.is_terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    names = {name for push in pushes for name in push.points}
    assert {"org.apache.kafka.producer.record.send.rate", "org.apache.kafka.producer.connection.creation.total"} < names
    sent = [push.points["org.apache.kafka.producer.record.send.total"] for push in pushes]
    # The broker asks for growth since the last push.
    assert all(point.is_sum and point.is_delta for point in sent)
    assert sum(point.value for point in sent) == 10


def test_a_consumer_pushes_what_is_subscribed(receiver: Receiver) -> None:
    async def scenario() -> None:
        async with Producer({**receiver.where, "client.id": "other"}) as producer:
            await producer.send_and_wait("u", b"1")
        config = {**receiver.where, "client.id": "wanted-consumer", "auto.offset.reset": "earliest"}
        async with Consumer(config) as consumer:
            await consumer.assign([TopicPartition("u", 0)])
            while not await consumer.poll(100):
                pass
            while not receiver.pushes("wanted-consumer"):
                await consumer.poll(50)

    run(scenario())
    pushes = receiver.pushes("wanted-consumer")
    assert {name.rpartition("fetch.manager")[0] for push in pushes for name in push.points} == {
        "org.apache.kafka.consumer."
    }
    assert (
        sum(push.points["org.apache.kafka.consumer.fetch.manager.records.consumed.total"].value for push in pushes) == 1
    )
    assert receiver.pushes("other") == []


def test_a_changed_subscription_counts_from_the_next_push_on(receiver: Receiver) -> None:
    async def scenario() -> None:
        await subscribe(receiver.where, "changed", "org.apache.kafka.producer.record.send.total")
        async with Producer({**receiver.where, "client.id": "changed"}) as producer:
            await producer.send_and_wait("t", b"1")
            while not receiver.pushes("changed"):
                await asyncio.sleep(0.05)
            await subscribe(receiver.where, "changed", "org.apache.kafka.producer.record.error.total")
            while "org.apache.kafka.producer.record.error.total" not in receiver.pushes("changed")[-1].points:
                await asyncio.sleep(0.05)

    run(scenario())
    assert set(receiver.pushes("changed")[-1].points) == {"org.apache.kafka.producer.record.error.total"}


def test_pushing_can_be_switched_off(receiver: Receiver) -> None:
    config = {**receiver.where, "client.id": "wanted-silent", "enable.metrics.push": False}
    with BlockingProducer(config) as producer:
        producer.send("t", b"1").result()
        with pytest.raises(ClientError, match=r"set enable\.metrics\.push to true"):
            producer.client_instance_id()
    assert receiver.pushes("wanted-silent") == []


def test_java_clients_push_to_ottla(java: ToolServer, tmp_path: Path) -> None:
    settings = {"ottla.client.metrics.enable": "true", "ottla.metrics.listener": "127.0.0.1:0"}
    with ottla.testing.cluster(settings=settings) as cluster:
        url = cluster.node(1).metrics_url
        assert url is not None
        produced = java.run(
            "ClientMetricsCommand",
            *("--bootstrap-server", cluster.bootstrap, "--alter", "--name", "every-client", "--interval", 200),
            *("--metrics", "org.apache.kafka.producer.", "--match", "client_software_name=apache-kafka-java"),
        )
        assert produced.status == 0, produced.stdout + produced.stderr
        config = tmp_path / "producer.properties"
        config.write_text("client.id=java\n")
        arguments = ("--topic", "t", "--num-records", 600, "--record-size", 10, "--throughput", 200)
        arguments += ("--bootstrap-server", cluster.bootstrap, "--command-config", str(config))
        with ThreadPoolExecutor() as pool:
            sending = pool.submit(java.run, "ProducerPerformance", *arguments)
            text = ""
            while "ottla_client_metric{" not in text and not sending.done():
                with urllib.request.urlopen(url, timeout=20) as answer:
                    text = answer.read().decode()
            done = sending.result()
        assert done.status == 0, done.stdout + done.stderr
        assert re.search(r'ottla_client_metric\{client_id="java".*software="apache-kafka-java 4.*\.record\.', text), (
            text
        )
