"""A producer that sends faster than brokers acknowledge is blocked: memory is bounded, and no record is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from ottla.client.cluster import Cluster
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.testing import cluster
from tests.support.spark_topics import Topics

BUFFER_BYTES = 64 * 1024
RECORD = bytes(1024)


def test_sending_waits_while_nothing_is_acknowledged() -> None:
    with cluster() as running:
        topics = Topics(running.bootstrap)
        topic = topics.create()
        (node,) = running.nodes
        acknowledged = asyncio.run(_send_to_a_node_that_sleeps(running.bootstrap, topic, node.pid))
        assert [record.offset for record in topics.read(topic)] == acknowledged == list(range(len(acknowledged)))
        topics.close()


async def _send_to_a_node_that_sleeps(bootstrap: str, topic: str, pid: int) -> list[int]:
    """Returns the offsets of all records that were sent."""
    connections = Cluster(ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap)))
    producer = Producer(connections, ProducerSettings(buffer_bytes=BUFFER_BYTES, linger_ms=0))
    deliveries = [await producer.send(topic, RECORD)]
    await deliveries[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        with suppress(TimeoutError):
            while True:
                deliveries.append(await asyncio.wait_for(producer.send(topic, RECORD), timeout=1.0))
        held = len(deliveries) - 1
        assert BUFFER_BYTES // 2 <= held * len(RECORD) <= BUFFER_BYTES + len(RECORD)
    finally:
        os.kill(pid, signal.SIGCONT)
    deliveries += [await producer.send(topic, RECORD) for _ in range(held)]
    metadata = [await delivery for delivery in deliveries]
    await producer.close()
    await connections.close()
    return [record.offset for record in metadata]
