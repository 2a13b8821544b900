"""How long producers wait for each broker itself: probes with acks=1, which do not wait for followers.

With acks=all a slow broker slows all partitions of which it is a replica, and it would look no slower than the brokers
that it follows.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from ottla.balance.guard import TOPIC
from ottla.client.admin import AdminClient
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.client.producer.settings import ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.model.errors import KafkaError
from ottla.monitor.latencies import Latencies
from ottla.monitor.probe_topic import ensure_topic

__all__ = ["measure_waits"]

INTERVAL_SECONDS = 0.02
TIMEOUT_MS = 5_000


async def measure_waits(
    client: ClientSettings | Cluster, seconds: float, *, clock: Callable[[], float] = time.monotonic
) -> dict[int, float]:
    """Broker -> the p99 of some seconds, in milliseconds. A failed send counts with the time-out."""
    async with AdminClient(client) as admin:
        leaders = {partition: leader for partition, leader in (await ensure_topic(admin, TOPIC)).items() if leader >= 0}
    waits: defaultdict[int, Latencies] = defaultdict(Latencies)

    def on_delivery(broker: int, began: float, _: object, error: Exception | None) -> None:
        waits[broker].add((clock() - began) * 1000 if error is None else TIMEOUT_MS)

    settings = ProducerSettings(
        acks=1, idempotent=False, linger_ms=0, request_timeout_ms=TIMEOUT_MS, delivery_timeout_ms=TIMEOUT_MS
    )
    async with Producer(client, settings) as producer:
        end = clock() + seconds
        while clock() < end:
            for partition, broker in leaders.items():
                done = partial(on_delivery, broker, clock())
                try:
                    await producer.send(TOPIC, b"wait", partition=partition, on_delivery=done)
                except (ClientError, KafkaError) as error:
                    done(None, error)
            await asyncio.sleep(INTERVAL_SECONDS)
    return {broker: latencies.quantile(0.99) for broker, latencies in waits.items()}
