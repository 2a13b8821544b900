"""`ottla perf`: throughput of producing and consuming, and end-to-end latency."""

from __future__ import annotations

import asyncio
import math
import random
import time
from datetime import datetime

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.client_properties import (
    consumer_settings,
    known_to_consumers,
    known_to_producers,
    producer_settings,
)
from ottla.cli.logic.latencies import Summary, summarize
from ottla.cli.logic.words import parse_key_values
from ottla.cli.names import GROUP, TOPIC
from ottla.cli.output import Output, json_fields
from ottla.cli.session import Session, cluster_options, run_async
from ottla.cli.verbs import VerbGroup
from ottla.client.consumer import Consumer
from ottla.client.producer import Delivery, Producer, ProducerSettings

__all__ = ["perf", "report_produced"]

MEBIBYTE = 1024 * 1024


@click.group(cls=VerbGroup, verbs={}, help="Measure producing, consuming and end to end (kafka-*-perf-test).")
def perf() -> None:
    """The verbs are below."""


@perf.command("produce", help="Produce records of one size at a given rate.")
@click.argument("name", required=False, type=TOPIC, metavar="[TOPIC]")
@click.argument("more", nargs=-1, metavar="[K=V]...")
@click.option("-t", "--topic", type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option("-n", "--num-records", type=click.IntRange(1), required=True, metavar="N", help="How many.")
@click.option("-s", "--record-size", type=click.IntRange(1), default=100, metavar="BYTES", help="[default: 100]")
@click.option("--throughput", type=float, default=-1, metavar="N/S", help="Records in a second, -1 for no limit.")
@click.option(
    "--payload-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Lines to choose from."
)
@click.option("--command-property", "--producer-props", "--producer-property", "extra", multiple=True, metavar="K=V")
@click.option("--transactional-id", metavar="ID", help="In transactions.")
@click.option("--transaction-duration-ms", type=click.IntRange(1), default=3000, metavar="MS", help="[default: 3000]")
@click.option("--print-metrics", is_flag=True, help="Show the client's metrics at the end.")
@cluster_options
def produce(
    session: Session,
    name: str | None,
    more: tuple[str, ...],
    topic: str | None,
    num_records: int,
    record_size: int,
    throughput: float,
    payload_file: str | None,
    extra: tuple[str, ...],
    transactional_id: str | None,
    transaction_duration_ms: int,
    print_metrics: bool,
) -> int:
    if topic is not None and name is not None:
        # Kafka's --producer-props takes several words; all but the first arrive here as arguments.
        more = (name, *more)
    chosen = topic or name
    if chosen is None:
        raise click.UsageError("Name a topic, as an argument or with --topic.")
    payloads = [random.Random(0).randbytes(record_size)]
    if payload_file is not None:
        with open(payload_file, "rb") as file:
            payloads = [line.rstrip(b"\n") for line in file] or payloads
    properties = dict(session.take(parse_key_values((*extra, *more), option="--command-property")))
    if transactional_id is not None:
        properties["transactional.id"] = transactional_id
    settings = producer_settings(properties)
    run = _ProduceRun(session, settings, chosen, payloads, num_records, throughput, transaction_duration_ms)
    run.print_metrics = print_metrics
    return run_async(run.run())


class _ProduceRun:
    def __init__(
        self,
        session: Session,
        settings: ProducerSettings,
        topic: str,
        payloads: list[bytes],
        count: int,
        throughput: float,
        transaction_ms: int,
    ) -> None:
        self.session = session
        self.settings = settings
        self.topic = topic
        self.payloads = payloads
        self.count = count
        self.throughput = throughput
        self.transaction_ms = transaction_ms
        self.latencies: list[float] = []
        self.failures = 0
        self.failure: BaseException | None = None
        self.print_metrics = False

    async def run(self) -> int:
        async with Producer(self.session.settings, self.settings) as producer:
            if self.settings.transactional_id is not None:
                await producer.init_transactions()
            await producer.partitions(self.topic)
            start = time.perf_counter()
            size = await self._send(producer, start)
            await producer.flush()
            seconds = time.perf_counter() - start
            metrics = producer.metrics() if self.print_metrics else {}
        if self.failures:
            raise Failure(f"{self.failures} of {self.count} records were not delivered: {self.failure}")
        report_produced(self.session.output, self.count, size, seconds, summarize(self.latencies), metrics)
        return 0

    async def _send(self, producer: Producer, start: float) -> int:
        transactional = self.settings.transactional_id is not None
        began = 0.0
        size = 0
        batch: object = None
        times: list[float] = []
        now = time.perf_counter
        with self.session.output.progress("producing", self.count) as advance:
            for number in range(self.count):
                if transactional and (not began or (now() - began) * 1000 > self.transaction_ms):
                    if began:
                        await producer.commit_transaction()
                    producer.begin_transaction()
                    began = now()
                payload = self.payloads[number % len(self.payloads)]
                sent = now()
                delivery = await producer.send(self.topic, payload)
                size += len(payload)
                if delivery.batch is not batch:
                    batch, times = delivery.batch, []
                    self._measure(delivery, times)
                times.append(sent)
                if self.throughput > 0:
                    ahead = start + (number + 1) / self.throughput - now()
                    if ahead > 0.001:
                        await asyncio.sleep(ahead)
                if not number % 500:
                    advance(500)
                    await asyncio.sleep(0)
            if transactional:
                await producer.commit_transaction()
        return size

    def _measure(self, delivery: Delivery, times: list[float]) -> None:
        """All records of a batch complete together, so there is one callback per batch."""

        def landed(done: asyncio.Future[tuple[int, int]]) -> None:
            at = time.perf_counter()
            if done.cancelled() or done.exception() is not None:
                self.failures += len(times)
                self.failure = None if done.cancelled() else done.exception()
            else:
                self.latencies += [(at - sent) * 1000 for sent in times]

        delivery.batch.done.add_done_callback(landed)


@perf.command("consume", help="Consume as fast as possible.")
@click.argument("name", required=False, type=TOPIC, metavar="[TOPIC]")
@click.option("-t", "--topic", type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option("-n", "--messages", "--num-records", "messages", type=click.IntRange(1), required=True, metavar="N")
@click.option("--fetch-size", type=click.IntRange(1), default=MEBIBYTE, metavar="BYTES", help="Of a partition.")
@click.option("-g", "--group", type=GROUP, metavar="GROUP", help="The group.  [default: a new one]")
@click.option(
    "--idle-ms", "--timeout-idle-ms", "idle_ms", type=int, default=10_000, metavar="MS", help="[default: 10000]"
)
@click.option("--batches", is_flag=True, help="Do not open record batches.")
@click.option("--from-latest", is_flag=True, help="Only what is new.")
@click.option("--command-property", "--consumer-property", "extra", multiple=True, metavar="K=V")
@click.option("--hide-header", is_flag=True, hidden=True, expose_value=False)
@click.option("--show-detailed-stats", is_flag=True, hidden=True, expose_value=False)
@click.option("--print-metrics", is_flag=True, help="Show the client's metrics at the end.")
@click.option("--reporting-interval", type=int, hidden=True, expose_value=False)
@cluster_options
def consume(
    session: Session,
    name: str | None,
    topic: str | None,
    messages: int,
    fetch_size: int,
    group: str | None,
    idle_ms: int,
    batches: bool,
    from_latest: bool,
    extra: tuple[str, ...],
    print_metrics: bool,
) -> int:
    chosen = topic or name
    if chosen is None:
        raise click.UsageError("Name a topic, as an argument or with --topic.")
    settings = consumer_settings(
        {
            "group.id": group or f"perf-consumer-{random.randrange(100_000)}",
            "max.partition.fetch.bytes": str(fetch_size),
            "auto.offset.reset": "latest" if from_latest else "earliest",
            "max.poll.records": "5000",
            **session.take(parse_key_values(extra, option="--command-property")),
        }
    )

    async def whole() -> int:
        count = size = 0
        joined = 0.0
        begin = datetime.now().astimezone()
        start = time.perf_counter()
        async with Consumer(session.settings, settings) as consumer:
            await consumer.subscribe([chosen])
            with session.output.progress("consuming", messages) as advance:
                while count < messages:
                    if batches:
                        fetched = await consumer.raw_batches(idle_ms)
                        new = sum(batch.header.record_count for batch in fetched)
                        size += sum(len(batch.view) for batch in fetched)
                    else:
                        records = await consumer.poll(idle_ms)
                        new = len(records)
                        size += sum(len(record.key or b"") + len(record.value or b"") for record in records)
                    joined = joined or time.perf_counter() - start
                    if not new:
                        break
                    count += new
                    advance(new)
            seconds = time.perf_counter() - start
            metrics = consumer.metrics() if print_metrics else {}
        _report_consumed(session.output, count, size, seconds, joined, begin, metrics)
        if count < messages:
            raise Failure(f"Only {count} of {messages} records arrived; no record came for {idle_ms} ms.")
        return 0

    return run_async(whole())


@perf.command("end-to-end", help="Send one record at a time, and wait until it is read.")
@click.argument("name", required=False, type=TOPIC, metavar="[TOPIC]")
@click.option("-t", "--topic", type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option("-n", "--num-records", type=click.IntRange(1), required=True, metavar="N", help="How many.")
@click.option("-a", "--acks", "--producer-acks", "acks", default="1", metavar="1|all", help="[default: 1]")
@click.option("-s", "--record-size", type=click.IntRange(1), default=100, metavar="BYTES", help="[default: 100]")
@cluster_options
def end_to_end(
    session: Session, name: str | None, topic: str | None, num_records: int, acks: str, record_size: int
) -> int:
    chosen = topic or name
    if chosen is None:
        raise click.UsageError("Name a topic, as an argument or with --topic.")
    if acks not in ("1", "all", "-1"):
        raise click.UsageError("--acks must be 1 or all: without acknowledgements there is no latency to measure.")
    # The file is for both clients, so properties of the producer and of the consumer are valid.
    producing = producer_settings({**known_to_producers(session.properties), "acks": acks, "linger.ms": "0"})
    own = {"auto.offset.reset": "latest", "fetch.max.wait.ms": "500"}
    consuming = consumer_settings({**known_to_consumers(session.properties), **own})

    async def whole() -> int:
        generator = random.Random(0)
        latencies = []
        async with Producer(session.settings, producing) as producer, Consumer(session.settings, consuming) as consumer:
            await producer.partitions(chosen)
            await consumer.assign(await consumer.partitions(chosen))
            await consumer.seek_to(-1)
            with session.output.progress("measuring", num_records) as advance:
                for _ in range(num_records):
                    payload = generator.randbytes(record_size)
                    start = time.perf_counter()
                    await producer.send_and_wait(chosen, payload)
                    records = await consumer.poll(session.settings.request_timeout_ms, max_records=2)
                    latencies.append((time.perf_counter() - start) * 1000)
                    if [record.value for record in records] != [payload]:
                        raise Failure(
                            "Another record was read than was sent: does another producer write to the topic?"
                        )
                    advance(1)
        summary = summarize(latencies)
        session.output.say(
            f"Avg latency: {summary.average_ms:.4f} ms\nPercentiles: 50th = {summary.p50_ms:.2f}, "
            f"99th = {summary.p99_ms:.2f}, 99.9th = {summary.p999_ms:.2f}"
        )
        session.output.emit(json_fields(summary))
        return 0

    return run_async(whole())


def report_produced(
    output: Output, count: int, size: int, seconds: float, summary: Summary, metrics: dict[str, float]
) -> None:
    rate = count / seconds
    megabytes = size / MEBIBYTE / seconds
    parts = (
        f"{count} records sent, {rate:.1f} records/sec ({megabytes:.2f} MB/sec),",
        f"{summary.average_ms:.2f} ms avg latency, {summary.max_ms:.2f} ms max latency,",
        f"{summary.p50_ms:.0f} ms 50th, {summary.p95_ms:.0f} ms 95th, {summary.p99_ms:.0f} ms 99th, "
        f"{summary.p999_ms:.0f} ms 99.9th.",
    )
    # Kafka's line, which scripts parse; on a narrow terminal it is split into three.
    line = " ".join(parts)
    output.say(line if output.has_room_for(len(line)) else "\n".join(parts))
    _show_metrics(output, metrics)
    answer = {"records": count, "recordsPerSecond": rate, "megabytesPerSecond": megabytes, **json_fields(summary)}
    output.emit(answer | ({"metrics": _plain(metrics)} if metrics else {}))


def _show_metrics(output: Output, metrics: dict[str, float]) -> None:
    if metrics:
        output.say()
        output.table(("METRIC", "VALUE"), [(name, f"{value:.3f}") for name, value in metrics.items()], right=(1,))


def _plain(metrics: dict[str, float]) -> dict[str, float | None]:
    """JSON has no NaN."""
    return {name: None if math.isnan(value) else value for name, value in metrics.items()}


def _report_consumed(
    output: Output,
    count: int,
    size: int,
    seconds: float,
    joined: float,
    begin: datetime,
    metrics: dict[str, float],
) -> None:
    fetching = max(seconds - joined, 1e-9)
    megabytes = size / MEBIBYTE
    output.table(
        ("START", "SECONDS", "RECORDS", "RECORDS/S", "MB", "MB/S", "JOIN MS", "FETCH MB/S"),
        [
            (
                begin.strftime("%H:%M:%S"),
                f"{seconds:.2f}",
                count,
                f"{count / seconds:.0f}",
                f"{megabytes:.1f}",
                f"{megabytes / seconds:.2f}",
                f"{joined * 1000:.0f}",
                f"{megabytes / fetching:.2f}",
            )
        ],
        right=range(1, 8),
    )
    _show_metrics(output, metrics)
    output.emit(
        {
            "records": count,
            "seconds": seconds,
            "recordsPerSecond": count / seconds,
            "megabytes": megabytes,
            "megabytesPerSecond": megabytes / seconds,
            "joinMs": joined * 1000,
            **({"metrics": _plain(metrics)} if metrics else {}),
        }
    )
