"""The live figures: a stream that all viewers of an account share, encoded once, and stopped without viewers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import ListedGroup
from ottla.client.admin.nodes import ClusterDescription
from ottla.client.admin.offsets import LATEST, FoundOffset
from ottla.client.errors import ClientError
from ottla.console.answers import to_json
from ottla.console.cluster_state import ClusterState
from ottla.console.group_reading import progress_of_groups, total_lag
from ottla.console.node_metrics import NodeMetrics
from ottla.console.rates import RecordRates, next_in_turn
from ottla.console.view import ClusterView, or_none
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["Live"]

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0
# After this time viewers get the event that the cluster does not answer.
READ_SECONDS_MAX = 5.0
FIRST_SECONDS_MAX = 30.0
HISTORY_MAX = 600
# An open page must cost less than a page that a person requests, so lists are read in a small part of the time. A
# cluster in trouble is read more often. The brokers that are alive are read for every event.
COST_FACTOR = 400.0
TROUBLED_COST_FACTOR = 50.0
PARTITIONS_PER_TICK = 400
GROUPS_PER_TICK = 20
TOPICS_SHOWN = 20
GROUPS_SHOWN = 20
# Events that wait for a slow viewer. Older events are dropped.
WAITING_MAX = 3


class Live:
    def __init__(self, admin: AdminClient, view: ClusterView, metrics: NodeMetrics) -> None:
        self._admin = admin
        self._view = view
        self._metrics = metrics
        self._viewers: set[asyncio.Queue[bytes]] = set()
        self._task: asyncio.Task[None] | None = None
        self._history: deque[dict[str, Any]] = deque(maxlen=HISTORY_MAX)
        self._rates = RecordRates()
        self._lags: dict[str, int] = {}
        self._states: dict[str, str] = {}
        self._partition_turn = 0
        self._group_turn = 0
        self._last_at: float | None = None
        self._health = "ok"
        # The partitions of the rates; the same object until the metadata is read again.
        self._led: tuple[TopicPartition, ...] = ()

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    @property
    def is_reading(self) -> bool:
        return self._task is not None

    def history(self) -> list[dict[str, Any]]:
        return list(self._history)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[asyncio.Queue[bytes]]:
        """A queue of the events from now on. The first viewer starts the reads, and the last viewer stops them."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(WAITING_MAX)
        self._viewers.add(queue)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        try:
            yield queue
        finally:
            self._viewers.discard(queue)
            if not self._viewers:
                await self.close()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # Rates over a pause would be meaningless.
        self._last_at = None
        self._rates = RecordRates()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                # The first read of a large cluster takes long.
                patience = FIRST_SECONDS_MAX if self._view.state.value is None else READ_SECONDS_MAX
                async with asyncio.timeout(patience):
                    event = await self._read()
            except (KafkaError, ClientError, TimeoutError, OSError) as error:
                logger.debug("The live figures cannot be read: %s", error)
                event = {
                    "time": int(time.time() * 1000),
                    "interval_ms": 0,
                    "health": "unreachable",
                    "error": str(error) or "The cluster does not answer.",
                }
            self._publish(event)
            due = max(due + INTERVAL_SECONDS, loop.time())
            await asyncio.sleep(due - loop.time())

    def _publish(self, event: dict[str, Any]) -> None:
        self._history.append({name: value for name, value in event.items() if name not in ("topics", "groups")})
        encoded = b"event: live\ndata: " + to_json(event) + b"\n\n"
        for queue in self._viewers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(encoded)

    async def _read(self) -> dict[str, Any]:
        state, groups, description, traffic = await asyncio.gather(
            self._view.state.get(cost_factor=COST_FACTOR if self._health == "ok" else TROUBLED_COST_FACTOR),
            self._read_groups(),
            self._read_brokers(),
            self._metrics.traffic(),
        )
        await asyncio.gather(self._read_rates(state), self._read_lags(groups or []))
        now = asyncio.get_running_loop().time()
        interval = 0 if self._last_at is None else int((now - self._last_at) * 1000)
        self._last_at = now
        offline = sum(row.offline for row in state.rows)
        behind = sum(row.under_replicated for row in state.rows)
        total = len(state.brokers) if description is None else len(description.brokers)
        alive = total if description is None else sum(not node.is_fenced for node in description.brokers)
        self._health = "critical" if offline else "warning" if behind or alive < total else "ok"
        return {
            "time": int(time.time() * 1000),
            "interval_ms": interval,
            "records_in_per_second": self._rates.total if traffic is None else traffic["messagesin"],
            "bytes_in_per_second": None if traffic is None else traffic["bytesin"],
            "bytes_out_per_second": None if traffic is None else traffic["bytesout"],
            "lag": sum(self._lags.values()) if self._lags else None,
            "brokers_alive": alive,
            "brokers_total": total,
            "offline_partitions": offline,
            "under_replicated_partitions": behind,
            "health": self._health,
            "topics": self._busiest(),
            "groups": self._furthest_behind(),
        }

    # A viewer may leave before these coroutines begin. The inner coroutines do not exist then, so none of them stays
    # without an await.

    async def _read_groups(self) -> list[ListedGroup] | None:
        return await or_none(self._view.groups.get(cost_factor=COST_FACTOR))

    async def _read_brokers(self) -> ClusterDescription | None:
        return await or_none(self._admin.cluster.describe(fenced=True))

    def _busiest(self) -> list[dict[str, Any]]:
        rates = sorted(self._rates.by_topic().items(), key=lambda topic_rate: -topic_rate[1])[:TOPICS_SHOWN]
        return [{"name": name, "records_in_per_second": rate} for name, rate in rates]

    def _furthest_behind(self) -> list[dict[str, Any]]:
        lags = sorted(self._lags.items(), key=lambda group_lag: -group_lag[1])[:GROUPS_SHOWN]
        return [{"id": group_id, "lag": lag, "state": self._states.get(group_id)} for group_id, lag in lags]

    async def _read_rates(self, state: ClusterState) -> None:
        led = state.led
        if led is not self._led:
            self._led = led
            self._rates.keep(led)
        busy = self._rates.busiest(PARTITIONS_PER_TICK // 2)
        rest, self._partition_turn = next_in_turn(led, self._partition_turn, PARTITIONS_PER_TICK - len(busy))
        wanted: dict[TopicPartition, int] = dict.fromkeys([*busy, *rest], LATEST)
        answers = await or_none(self._admin.offsets.find(wanted, timeout_ms=500))
        ends = {
            partition: answer.offset for partition, answer in (answers or {}).items() if isinstance(answer, FoundOffset)
        }
        self._rates.update(asyncio.get_running_loop().time(), ends)

    async def _read_lags(self, groups: list[ListedGroup]) -> None:
        known = {group.group_id: group for group in groups}
        self._states = {group.group_id: group.state for group in groups}
        self._lags = {group_id: lag for group_id, lag in self._lags.items() if group_id in known}
        ids = list(known)
        begin = self._group_turn % len(ids) if ids else 0
        turn = [*ids[begin:], *ids[:begin]][:GROUPS_PER_TICK]
        self._group_turn = begin + len(turn)
        wanted = [known[group_id] for group_id in dict.fromkeys((*self._view.watched(), *turn)) if group_id in known]
        now = int(time.time() * 1000)
        for group_id, progress in ((await or_none(progress_of_groups(self._admin, wanted))) or {}).items():
            lag = total_lag(progress)
            if lag is not None:
                self._lags[group_id] = lag
                self._view.lags.add(group_id, now, lag)
