"""The end-to-end check: sends numbered records through every broker, reads them back, and keeps the books.

Every run has an id of its own, so several monitors can share the topic: a monitor counts its own records only.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import LATEST
from ottla.client.consumer import Consumer
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.client.producer.settings import ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.monitor.latencies import Latencies
from ottla.monitor.ledger import PartitionLedger, Seen
from ottla.monitor.outages import Outage, Outages
from ottla.monitor.probe_topic import ensure_topic

__all__ = ["Finding", "Probe", "ProbeSettings"]

# A partition with this many unacknowledged probes gets no further probes.
UNANSWERED_MAX = 1_000
CHECK_SECONDS = 0.2
COMMIT_SECONDS = 1.0
TOPIC_SECONDS = 10.0
# Pause after an error, so that a dead cluster is not polled in a tight loop.
RETRY_SECONDS = 0.5

_Failures = (ClientError, KafkaError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    topic: str = "ottla-monitor"
    group: str = "ottla-monitor"
    # Between two probes of a partition.
    interval_seconds: float = 0.1
    # An acknowledged probe that is not read within this time is lost.
    lost_after_seconds: float = 30.0
    # A probe without an answer for this time is an outage.
    outage_after_seconds: float = 3.0
    # How long the end of a run waits for open probes.
    drain_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """An event that an operator should know about at once."""

    event: str
    partition: int
    leader: int
    text: str


class Probe:
    """One run. `ledgers`, `outages` and the counters can be read at any time."""

    def __init__(
        self,
        client: ClientSettings,
        settings: ProbeSettings,
        on_finding: Callable[[Finding], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.ledgers: dict[int, PartitionLedger] = {}
        # Partition -> the broker that leads it, as of the last look.
        self.leaders: dict[int, int] = {}
        self.outages = Outages(settings.outage_after_seconds)
        self.commit_latency = Latencies()
        self.commits_failed = 0
        self.reads_failed = 0
        self.last_error = ""
        self.began_at = clock()
        self._client = client
        self._on_finding = on_finding
        self._clock = clock
        self._run_id = secrets.token_hex(8)
        # Where reading continues after partitions were added.
        self._positions: dict[int, int] = {}
        # The partitions that are read. Only these get probes: a probe that is not read would count as lost.
        self._assigned: set[int] = set()
        self._is_sending = True

    async def run(self, *, seconds: float | None, is_stopped: Callable[[], bool], on_ready: Callable[[], None]) -> None:
        """Probes until the time is over or the caller stops it, then waits for open probes."""
        producing = ProducerSettings(linger_ms=0, request_timeout_ms=10_000, delivery_timeout_ms=20_000)
        consuming = ConsumerSettings(group_id=self.settings.group, auto_commit=False, fetch_max_wait_ms=100)
        async with (
            AdminClient(self._client) as admin,
            Producer(self._client, producing) as producer,
            Consumer(self._client, consuming) as consumer,
        ):
            self.leaders = dict(await ensure_topic(admin, self.settings.topic))
            await self._assign(consumer, at_end=True)
            on_ready()
            self.began_at = self._clock()
            tasks = [
                asyncio.ensure_future(work)
                for work in (
                    self._repeat(self.settings.interval_seconds, lambda: self._send_round(producer)),
                    self._read(consumer),
                    self._repeat(COMMIT_SECONDS, lambda: self._commit(consumer)),
                    self._repeat(TOPIC_SECONDS, lambda: self._follow_topic(admin, consumer)),
                    self._repeat(CHECK_SECONDS, self._check),
                )
            ]
            try:
                await self._wait(tasks, self.began_at + seconds if seconds is not None else None, is_stopped)
                self._is_sending = False
                await self._wait(tasks, self._clock() + self.settings.drain_seconds, self._is_drained)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            self._give_up(self._clock())
            # The group of the monitor has no lag between two runs.
            await self._commit(consumer)

    async def _wait(
        self, tasks: Sequence[asyncio.Future[None]], end: float | None, is_over: Callable[[], bool]
    ) -> None:
        while not is_over() and (end is None or self._clock() < end):
            left = CHECK_SECONDS if end is None else min(CHECK_SECONDS, max(end - self._clock(), 0))
            done, _ = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                # No task ends by itself, so a task that is done has failed: this raises its exception.
                task.result()

    def _is_drained(self) -> bool:
        return not any(ledger.awaited or ledger.oldest_unacknowledged() is not None for ledger in self.ledgers.values())

    async def _repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `work` at a fixed rate. A run that takes too long delays the next run; missed runs are skipped."""
        due = self._clock()
        while True:
            await work()
            due = max(due + seconds, self._clock())
            await asyncio.sleep(due - self._clock())

    # Sending.

    async def _send_round(self, producer: Producer) -> None:
        for partition in self.leaders:
            if self._is_sending and partition in self._assigned:
                await self._send(producer, partition)

    async def _send(self, producer: Producer, partition: int) -> None:
        ledger = self.ledgers.setdefault(partition, PartitionLedger())
        if ledger.unacknowledged >= UNANSWERED_MAX:
            return
        sent_at = self._clock()
        number = ledger.send(sent_at)

        def on_delivery(_: object, error: Exception | None) -> None:
            if error is None:
                ledger.acknowledge(number, sent_at, self._clock())
            else:
                self.last_error = str(error)
                ledger.fail(number)

        value = f"{self._run_id}:{number}".encode()
        try:
            await producer.send(self.settings.topic, value, partition=partition, on_delivery=on_delivery)
        except _Failures as error:
            self.last_error = str(error)
            ledger.fail(number)

    # Reading.

    async def _assign(self, consumer: Consumer, *, at_end: bool) -> None:
        partitions = {number: TopicPartition(self.settings.topic, number) for number in self.leaders}
        await consumer.assign(partitions.values())
        if at_end:
            await consumer.seek_to(LATEST, *partitions.values())
            self._positions = {number: consumer.position(partition) for number, partition in partitions.items()}
        else:
            for number, partition in partitions.items():
                consumer.seek(partition, self._positions.setdefault(number, 0))
        self._assigned = set(partitions)

    async def _read(self, consumer: Consumer) -> None:
        prefix = f"{self._run_id}:".encode()
        while True:
            try:
                records = await consumer.poll(200)
            except _Failures as error:
                self.reads_failed += 1
                self.last_error = str(error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            now = self._clock()
            for record in records:
                self._positions[record.partition] = record.offset + 1
                if record.value is not None and record.value.startswith(prefix):
                    self._on_read(record.partition, int(record.value[len(prefix) :]), record.offset, now)

    def _on_read(self, partition: int, number: int, offset: int, now: float) -> None:
        seen = self.ledgers.setdefault(partition, PartitionLedger()).read(number, now)
        if seen is Seen.DUPLICATE:
            self._report("duplicate", partition, f"probe {number} was read again, at offset {offset}")
        elif seen is Seen.OUT_OF_ORDER:
            self._report("out of order", partition, f"probe {number} was read after a later one, at offset {offset}")

    async def _commit(self, consumer: Consumer) -> None:
        began = self._clock()
        offsets = {TopicPartition(self.settings.topic, number): at for number, at in self._positions.items()}
        try:
            await consumer.commit(offsets)
        except _Failures as error:
            self.commits_failed += 1
            self.last_error = str(error)
        else:
            self.commit_latency.add((self._clock() - began) * 1000)

    # Supervision.

    async def _follow_topic(self, admin: AdminClient, consumer: Consumer) -> None:
        """Adds partitions for brokers that joined, and updates the leaders. A failed assignment is tried again."""
        with contextlib.suppress(*_Failures):
            self.leaders = dict(await ensure_topic(admin, self.settings.topic))
            self._assigned &= self.leaders.keys()
            if self.leaders.keys() - self._assigned:
                await self._assign(consumer, at_end=False)

    async def _check(self) -> None:
        now = self._clock()
        for outage in self.outages.check(self.ledgers, now):
            self._report_outage(outage, now)
        self._give_up(now - self.settings.lost_after_seconds)

    def _report_outage(self, outage: Outage, now: float) -> None:
        symptom = "takes no records" if outage.side == "produce" else "acknowledged records that cannot be read"
        seconds = f"{outage.seconds(now):.1f} s"
        if outage.ended_at is None:
            reason = f"; last error: {self.last_error}" if self.last_error else ""
            self._report("outage", outage.partition, f"{symptom}, for {seconds} now{reason}")
        else:
            self._report("outage over", outage.partition, f"works again, after {seconds}")

    def _give_up(self, acknowledged_before: float) -> None:
        for partition, ledger in self.ledgers.items():
            for number in ledger.give_up(acknowledged_before):
                self._report("lost", partition, f"probe {number} was acknowledged and could not be read")

    def _report(self, event: str, partition: int, text: str) -> None:
        self._on_finding(Finding(event, partition, self.leaders.get(partition, -1), text))
