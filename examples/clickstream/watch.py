"""Observes the pipeline: a consumer of both topics that counts batches, and a scan of the files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["LOOK_SECONDS", "Stage", "Watch"]

LOOK_SECONDS = 0.5
RATE_SECONDS = 5.0


@dataclass(slots=True)
class Stage:
    """The progress of one stage."""

    name: str
    records: int = 0
    # The age of the oldest click of the last batch when it became readable.
    latency_ms: float | None = None
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def on_records(self, count: int, *, oldest_ms: float | None, visible_ms: float) -> None:
        self.records += count
        if oldest_ms is not None:
            self.latency_ms = visible_ms - oldest_ms

    def records_per_second(self, now: float) -> float:
        """The rate over the last seconds."""
        self._seen.append((now, self.records))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        (began, before), (ended, after) = self._seen[0], self._seen[-1]
        return (after - before) / (ended - began) if ended > began else 0.0


class Watch:
    """An async context manager that observes topics and files while it is open."""

    def __init__(self, bootstrap: str, topics: tuple[str, str], path: Path, *, rate: int) -> None:
        first, second = topics
        self.stages = [
            Stage(f"generator → {first}"),
            Stage(f"{first} + users → {second}"),
            Stage(f"{second} → Parquet"),
        ]
        self._by_topic = {first: self.stages[0], second: self.stages[1]}
        self._settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap), client_id="watch")
        self._path = path
        self._files: set[Path] = set()
        # From the start of the stream until the first clicks were in files.
        self.first_file_seconds: float | None = None
        self._rate = rate
        self._began = time.monotonic()
        self._work: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watch:
        # The click of the warm-up is in a file already.
        await asyncio.to_thread(self._look_at_files)
        self.first_file_seconds = None
        self._began = time.monotonic()
        self._work = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._work is not None
        self._work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._work

    @property
    def is_drained(self) -> bool:
        """Whether all generated clicks are in the files."""
        self._check()
        return self.stages[0].records == self.stages[1].records == self.stages[2].records

    def table(self, title: str) -> Table:
        from rich.table import Table

        self._check()
        table = Table(title=title, title_justify="left")
        table.add_column("stage", min_width=36)
        for name in ("records", "records/s", "behind", "latency"):
            table.add_column(name, justify="right", min_width=9)
        now = time.monotonic()
        # The generator lags behind the schedule, every other stage behind the previous one.
        before = int((now - self._began) * self._rate)
        for stage in self.stages:
            latency = "" if stage.latency_ms is None else f"{stage.latency_ms:,.0f} ms"
            behind = max(before - stage.records, 0)
            table.add_row(
                stage.name, f"{stage.records:,}", f"{stage.records_per_second(now):,.0f}", f"{behind:,}", latency
            )
            before = stage.records
        return table

    def line(self) -> str:
        """The same as one line, for output that is not a terminal."""
        now = time.monotonic()
        parts = [f"{stage.name}: {stage.records:,} ({stage.records_per_second(now):,.0f}/s)" for stage in self.stages]
        return "; ".join(parts)

    def _check(self) -> None:
        """Raises the error of a failed observer instead of showing old numbers."""
        assert self._work is not None
        if self._work.done():
            self._work.result()

    async def _look(self) -> None:
        settings = ConsumerSettings(read_committed=True, auto_offset_reset="earliest", auto_commit=False)
        async with Consumer(self._settings, settings) as consumer:
            await consumer.assign(
                [partition for topic in self._by_topic for partition in await consumer.partitions(topic)]
            )
            while True:
                await self._look_at_topics(consumer)
                await asyncio.to_thread(self._look_at_files)

    async def _look_at_topics(self, consumer: Consumer) -> None:
        oldest: dict[str, float | None] = {}
        counts: dict[str, int] = {}
        batches = await consumer.raw_batches(timeout_ms=int(LOOK_SECONDS * 1000))
        now_ms = time.time() * 1000
        for batch in batches:
            topic = batch.partition.topic
            # Decoding one batch of each topic is enough to know their age; the other batches are only counted.
            if topic not in oldest:
                value = batch.records()[0].value
                oldest[topic] = None if value is None else json.loads(value)["at"]
            counts[topic] = counts.get(topic, 0) + batch.header.record_count
        for topic, count in counts.items():
            self._by_topic[topic].on_records(count, oldest_ms=oldest[topic], visible_ms=now_ms)

    def _look_at_files(self) -> None:
        import pyarrow.parquet

        new = set(self._path.glob("region=*/*.parquet")) - self._files
        if new and self.first_file_seconds is None:
            self.first_file_seconds = time.monotonic() - self._began
        for path in sorted(new, key=lambda new_path: new_path.stat().st_mtime_ns):
            self._files.add(path)
            footer = pyarrow.parquet.read_metadata(path)
            column = footer.schema.names.index("at")
            oldest_ms = footer.row_group(0).column(column).statistics.min.timestamp() * 1000
            self.stages[2].on_records(
                footer.num_rows, oldest_ms=oldest_ms, visible_ms=path.stat().st_mtime_ns / 1_000_000
            )
