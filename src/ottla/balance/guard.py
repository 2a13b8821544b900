"""Watches how long producers wait while replicas move, against how long they waited before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from ottla.client.admin import AdminClient
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.client.producer.settings import ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.model.errors import KafkaError
from ottla.monitor.latencies import Latencies
from ottla.monitor.probe_topic import ensure_topic

__all__ = ["LatencyGuard", "LatencyJudge"]

TOPIC = "ottla-monitor"
# Every broker gets a record in this time, and the records are spread over it, because a burst would itself be a load.
INTERVAL_SECONDS = 0.1
TIMEOUT_MS = 5_000


class LatencyJudge:
    """Compares the newest windows with the usual latency. Pure: the caller ends the windows."""

    def __init__(self, *, factor: float, floor_ms: float, patience: int) -> None:
        self.usual_ms: float | None = None
        self._factor = factor
        self._floor_ms = floor_ms
        self._patience = patience
        self._window = Latencies()
        self._bad_windows = 0
        self._last_ms = 0.0

    def add(self, milliseconds: float) -> None:
        self._window.add(milliseconds)

    def end_window(self) -> None:
        """Ends the window. The latency of the first window counts as usual."""
        window, self._window = self._window, Latencies()
        if self.usual_ms is None:
            self.usual_ms = window.quantile(0.99)
            return
        self._last_ms = window.quantile(0.99)
        # A window without an answer counts as bad.
        is_bad = not window.count or self._last_ms > self.limit_ms
        self._bad_windows = self._bad_windows + 1 if is_bad else 0

    @property
    def limit_ms(self) -> float:
        return max((self.usual_ms or 0.0) * self._factor, self._floor_ms)

    def complaint(self) -> str | None:
        if self._bad_windows < self._patience:
            return None
        return f"Producers wait {self._last_ms:.0f} ms (p99); at most {self.limit_ms:.0f} ms are accepted."


class LatencyGuard:
    """An async context manager that sends records through every broker. The executor calls `complaint`.

    The brokers of `without` are being emptied: they get no new partitions for the records.
    """

    def __init__(
        self,
        client: ClientSettings | Cluster,
        *,
        factor: float = 2.0,
        floor_ms: float = 100.0,
        window_seconds: float = 2.0,
        patience: int = 3,
        without: Collection[int] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.judge = LatencyJudge(factor=factor, floor_ms=floor_ms, patience=patience)
        self._client = client
        self._window_seconds = window_seconds
        self._without = without
        self._clock = clock
        self._usual = asyncio.Event()
        # The partitions that have answered. Others may have had no leader before the run.
        self._answering: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def complaint(self) -> str | None:
        if self._task is not None and self._task.done():
            return f"The guard sends no records any more: {self._task.exception()}"
        return self.judge.complaint()

    async def __aenter__(self) -> Self:
        async with AdminClient(self._client) as admin:
            self._partitions = list(await ensure_topic(admin, TOPIC, without=self._without))
        self._task = asyncio.ensure_future(self._run())
        usual = asyncio.ensure_future(self._usual.wait())
        try:
            await asyncio.wait([self._task, usual], return_when="FIRST_COMPLETED")
        except BaseException:
            self._task.cancel()
            raise
        finally:
            usual.cancel()
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        settings = ProducerSettings(linger_ms=0, request_timeout_ms=TIMEOUT_MS, delivery_timeout_ms=TIMEOUT_MS)
        async with Producer(self._client, settings) as producer:
            end = self._clock() + self._window_seconds
            pause_seconds = INTERVAL_SECONDS / (len(self._partitions) + 1)
            while True:
                for partition in self._partitions:
                    await self._send(producer, partition)
                    await asyncio.sleep(pause_seconds)
                if self._clock() >= end:
                    self.judge.end_window()
                    self._usual.set()
                    end = self._clock() + self._window_seconds
                await asyncio.sleep(pause_seconds)

    async def _send(self, producer: Producer, partition: int) -> None:
        began = self._clock()

        def on_delivery(_: object, error: Exception | None) -> None:
            if error is None:
                self._answering.add(partition)
                self.judge.add((self._clock() - began) * 1000)
            elif partition in self._answering and self._usual.is_set():
                # Ignored failures would hide a broker that answers nothing behind the answers of the other brokers.
                self.judge.add(TIMEOUT_MS)

        try:
            await producer.send(TOPIC, b"guard", partition=partition, on_delivery=on_delivery)
        except (ClientError, KafkaError) as error:
            on_delivery(None, error)
