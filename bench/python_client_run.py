"""One run of one Python client in a process of its own.

    python -m bench.python_client_run CLIENT WORK ADDRESS TOPIC SIZE

It prints the figures of the run as JSON. All clients get the same settings: acks of all replicas, idempotent if they
can be, batches of 128 KiB, keys, no compression.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["CPU", "LATENCY", "PARTITIONS", "RATE", "main"]

RATE = "records/s"
CPU = "client CPU s/million records"
LATENCY = ("send p50 ms", "send p99 ms")
PARTITIONS = 4
RECORDS = 200_000
SENDS = 1_000
WARM_UP_SENDS = 300
LINGER_MS = 5
BATCH_BYTES = 128 * 1024
POLL_RECORDS = 5_000
TABLE_ROWS = 10_000

Figures = dict[str, float]


class Measured:
    """Records per second and CPU time from the first to the last record."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu()

    def figures(self, records: int) -> Figures:
        wall, cpu = time.perf_counter() - self._wall, _cpu() - self._cpu
        return {RATE: records / wall, CPU: cpu / records * 1e6}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _keys() -> list[bytes]:
    return [b"key-%d" % number for number in range(1_000)]


async def _percentiles(send: Callable[[], Awaitable[object]]) -> Figures:
    for _ in range(WARM_UP_SENDS):
        await send()
    taken = []
    for _ in range(SENDS):
        begun = time.perf_counter()
        await send()
        taken.append((time.perf_counter() - begun) * 1000)
    taken.sort()
    return dict(zip(LATENCY, (taken[SENDS // 2], taken[SENDS * 99 // 100]), strict=True))


class Ottla:
    def produce(self, where: str, topic: str, value: bytes) -> Figures:
        from ottla.client.producer import Producer

        async def work() -> Figures:
            config = {"bootstrap.servers": where, "linger.ms": LINGER_MS, "batch.size": BATCH_BYTES}
            async with Producer(config) as producer:
                await producer.send_and_wait(topic, value, b"first")
                keys, measured = _keys(), Measured()
                for number in range(RECORDS):
                    await producer.send(topic, value, keys[number % 1_000])
                await producer.flush()
                return measured.figures(RECORDS)

        return _run(work())

    def consume(self, where: str, topic: str, _value: bytes) -> Figures:
        from ottla.client.consumer import Consumer

        async def work() -> Figures:
            config = {"bootstrap.servers": where, "auto.offset.reset": "earliest", "max.poll.records": POLL_RECORDS}
            async with Consumer(config) as consumer:
                await consumer.assign(await consumer.partitions(topic))
                count, measured = 0, Measured()
                while count < RECORDS:
                    count += len(await consumer.poll())
                return measured.figures(count)

        return _run(work())

    def latency(self, where: str, topic: str, value: bytes) -> Figures:
        from ottla.client.producer import Producer

        async def work() -> Figures:
            async with Producer({"bootstrap.servers": where, "linger.ms": 0}) as producer:
                return await _percentiles(lambda: producer.send_and_wait(topic, value, b"key"))

        return _run(work())


class OttlaColumns:
    def produce(self, where: str, topic: str, value: bytes) -> Figures:
        import pyarrow

        from ottla.client.producer import Producer

        keys = _keys()
        rows = {
            "key": pyarrow.array([keys[number % 1_000] for number in range(RECORDS)], pyarrow.binary()),
            "value": pyarrow.array([value] * RECORDS, pyarrow.binary()),
        }
        table = pyarrow.table(rows)

        async def work() -> Figures:
            async with Producer({"bootstrap.servers": where, "linger.ms": LINGER_MS}) as producer:
                await producer.send_and_wait(topic, value, b"first")
                measured = Measured()
                for batch in table.to_batches(TABLE_ROWS):
                    await producer.send_table(topic, batch)
                await producer.flush()
                return measured.figures(RECORDS)

        return _run(work())

    def consume(self, where: str, topic: str, _value: bytes) -> Figures:
        from ottla.client.columns import reading
        from ottla.client.consumer import Consumer

        assert reading

        async def work() -> Figures:
            async with Consumer({"bootstrap.servers": where, "auto.offset.reset": "earliest"}) as consumer:
                await consumer.assign(await consumer.partitions(topic))
                count, measured = 0, Measured()
                while count < RECORDS:
                    count += sum(batch.num_rows for batch in await consumer.batches())
                return measured.figures(count)

        return _run(work())


class Confluent:
    def produce(self, where: str, topic: str, value: bytes) -> Figures:
        from confluent_kafka import Producer

        config = {"linger.ms": LINGER_MS, "batch.size": BATCH_BYTES, "queue.buffering.max.messages": 1_000_000}
        producer = Producer({"bootstrap.servers": where, "enable.idempotence": True, **config})
        producer.produce(topic, value, b"first")
        producer.flush()
        keys, measured = _keys(), Measured()
        for number in range(RECORDS):
            producer.produce(topic, value, keys[number % 1_000])
            if number % 1_000 == 0:
                producer.poll(0)
        producer.flush()
        return measured.figures(RECORDS)

    def consume(self, where: str, topic: str, _value: bytes) -> Figures:
        from confluent_kafka import Consumer, TopicPartition

        # By default librdkafka pauses for a whole second when its queue is full.
        config = {"group.id": "unused", "enable.auto.commit": False, "fetch.queue.backoff.ms": 2}
        consumer = Consumer({"bootstrap.servers": where, **config})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        count, measured = 0, Measured()
        while count < RECORDS:
            count += len(consumer.consume(POLL_RECORDS, 1.0))
        figures = measured.figures(count)
        consumer.close()
        return figures


class Aiokafka:
    def produce(self, where: str, topic: str, value: bytes) -> Figures:
        from aiokafka import AIOKafkaProducer

        async def work() -> Figures:
            producer = AIOKafkaProducer(
                bootstrap_servers=where, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES, enable_idempotence=True
            )
            await producer.start()
            await producer.send_and_wait(topic, value, b"first")
            keys, measured = _keys(), Measured()
            for number in range(RECORDS):
                await producer.send(topic, value, keys[number % 1_000])
            await producer.flush()
            figures = measured.figures(RECORDS)
            await producer.stop()
            return figures

        return _run(work())

    def consume(self, where: str, topic: str, _value: bytes) -> Figures:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def work() -> Figures:
            consumer = AIOKafkaConsumer(bootstrap_servers=where, enable_auto_commit=False)
            await consumer.start()
            consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
            await consumer.seek_to_beginning()
            count, measured = 0, Measured()
            while count < RECORDS:
                batches = await consumer.getmany(timeout_ms=1_000, max_records=POLL_RECORDS)
                count += sum(map(len, batches.values()))
            figures = measured.figures(count)
            await consumer.stop()
            return figures

        return _run(work())

    def latency(self, where: str, topic: str, value: bytes) -> Figures:
        from aiokafka import AIOKafkaProducer

        async def work() -> Figures:
            producer = AIOKafkaProducer(bootstrap_servers=where, linger_ms=0, enable_idempotence=True)
            await producer.start()
            figures = await _percentiles(lambda: producer.send_and_wait(topic, value, b"key"))
            await producer.stop()
            return figures

        return _run(work())


class KafkaPython:
    def produce(self, where: str, topic: str, value: bytes) -> Figures:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=where, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, acks="all")
        producer.send(topic, value, b"first").get(30)
        keys, measured = _keys(), Measured()
        for number in range(RECORDS):
            producer.send(topic, value, keys[number % 1_000])
        producer.flush()
        figures = measured.figures(RECORDS)
        producer.close()
        return figures

    def consume(self, where: str, topic: str, _value: bytes) -> Figures:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=where, enable_auto_commit=False, max_poll_records=POLL_RECORDS)
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        consumer.seek_to_beginning()
        count, measured = 0, Measured()
        while count < RECORDS:
            count += sum(map(len, consumer.poll(1_000).values()))
        figures = measured.figures(count)
        consumer.close()
        return figures


CLIENTS: dict[str, Any] = {
    "ottla": Ottla(),
    "ottla-columns": OttlaColumns(),
    "confluent-kafka": Confluent(),
    "aiokafka": Aiokafka(),
    "kafka-python": KafkaPython(),
}


def _run(work: Any) -> Figures:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures: Figures = runner.run(work)
        return figures


def main(client: str, work: str, where: str, topic: str, size: str) -> None:
    print(json.dumps(getattr(CLIENTS[client], work)(where, topic, os.urandom(int(size)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
