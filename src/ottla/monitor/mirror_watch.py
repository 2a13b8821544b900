"""Watches mirroring flows: the age of their newest heartbeats, and the records that their targets do not have yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ottla.client.admin import AdminClient
from ottla.mirror.flow import find_lag
from ottla.mirror.heartbeat_times import find_heartbeats
from ottla.mirror.settings import FlowSettings

__all__ = ["MirrorStatus", "MirrorWatch", "mirrors_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    source: str
    target: str
    # The age of the newest heartbeat that has arrived; None without heartbeats.
    lag_seconds: float | None
    # None without the properties file of the mirror, which names both clusters.
    lag_records: int | None
    worst_partition: str | None


class MirrorWatch:
    """Reads heartbeats in one cluster, and counts the records of each flow in its source and in its target."""

    def __init__(
        self, admin: AdminClient, flows: Sequence[FlowSettings] = (), *, clock: Callable[[], float] = time.time
    ) -> None:
        self._admin = admin
        self._flows = flows
        self._clock = clock

    async def look(self) -> list[MirrorStatus]:
        beats = await find_heartbeats(self._admin)
        lags = {(flow.source, flow.target): await find_lag(flow) for flow in self._flows}
        now = self._clock()
        return [
            MirrorStatus(
                source=source,
                target=target,
                lag_seconds=None if (at := beats.get((source, target))) is None else round(max(now - at / 1000, 0), 3),
                lag_records=None if (lag := lags.get((source, target))) is None else lag.records,
                worst_partition=None if lag is None or not lag.records else lag.worst_partition,
            )
            for source, target in sorted({*beats, *lags})
        ]


def mirrors_text(mirrors: Iterable[MirrorStatus]) -> Iterator[str]:
    """The text format of Prometheus. Names of clusters have no characters that need an escape."""
    rows = list(mirrors)
    yield "# HELP ottla_monitor_mirror_lag_seconds Age of the newest heartbeat of a mirroring flow.\n"
    yield "# TYPE ottla_monitor_mirror_lag_seconds gauge\n"
    yield "".join(
        f'ottla_monitor_mirror_lag_seconds{{source="{row.source}",target="{row.target}"}} {row.lag_seconds}\n'
        for row in rows
        if row.lag_seconds is not None
    )
    yield "# HELP ottla_monitor_mirror_lag_records Records of a mirroring flow that its target does not have yet.\n"
    yield "# TYPE ottla_monitor_mirror_lag_records gauge\n"
    yield "".join(
        f'ottla_monitor_mirror_lag_records{{source="{row.source}",target="{row.target}"}} {row.lag_records}\n'
        for row in rows
        if row.lag_records is not None
    )
