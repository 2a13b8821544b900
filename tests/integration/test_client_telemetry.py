"""Clients push their metrics to a node that receives them (KIP-714), and its metrics endpoint shows them."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import ottla.testing
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.errors import TimedOut
from ottla.client.producer import Producer

SETTINGS = {
    "ottla.client.metrics.enable": "true",
    "ottla.metrics.listener": "127.0.0.1:0",
    "telemetry.max.bytes": "100000",
}
SENT = "org.apache.kafka.producer.record.send.total"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(settings=SETTINGS) as running:
        yield running


def pushed(cluster: ottla.testing.Cluster, client_id: str) -> dict[str, float]:
    url = cluster.node(1).metrics_url
    assert url is not None
    with urllib.request.urlopen(url, timeout=20) as answer:
        text = answer.read().decode()
    return {
        sample.labels["metric"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name == "ottla_client_metric" and sample.labels["client_id"] == client_id
    }


async def subscribe(cluster_config: dict[str, Any], metrics: str) -> None:
    resource = ConfigResource(ResourceType.CLIENT_METRICS, "of-producers")
    changes = {"metrics": metrics, "interval.ms": "100", "match": "client_id=wanted,client_software_name=ottla"}
    async with AdminClient(cluster_config) as admin:
        done = await admin.configs.alter({resource: [ConfigChange(*change) for change in changes.items()]})
        assert done == {resource: None}


def test_the_endpoint_shows_what_clients_push(cluster: ottla.testing.Cluster) -> None:
    cluster_config = {"bootstrap.servers": cluster.bootstrap, "client.id": "wanted"}

    async def scenario() -> None:
        await subscribe(cluster_config, SENT)
        async with Producer(cluster_config) as producer:
            for number in range(7):
                await producer.send_and_wait("t", b"%d" % number)
            while await asyncio.to_thread(pushed, cluster, "wanted") != {SENT: 7.0}:
                await asyncio.sleep(0.05)
            await subscribe(cluster_config, "org.apache.kafka.producer.")
            while len(await asyncio.to_thread(pushed, cluster, "wanted")) < 5:
                await asyncio.sleep(0.05)
        # The last push of a client removes its metrics.
        assert await asyncio.to_thread(pushed, cluster, "wanted") == {}

    async def limited() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(limited())


def test_a_node_receives_nothing_unless_it_is_told_to(shared_cluster: ottla.testing.Cluster) -> None:
    async def scenario() -> None:
        async with Producer({"bootstrap.servers": shared_cluster.bootstrap}) as producer:
            await producer.send_and_wait("t", b"1")
            with pytest.raises(TimedOut, match="none has a receiver"):
                await producer.client_instance_id(timeout_ms=50)

    asyncio.run(scenario())
