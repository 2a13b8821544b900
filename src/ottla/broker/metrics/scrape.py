"""One scrape: the node as the table's readers see it, with what several of them need computed once.

`Recent` is kept from scrape to scrape, for the figures that are about the last minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.metadata.image import NO_LEADER
from ottla.replica.statistics import replica_statistics
from ottla.wire.api import API_SPECS, ApiKey

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.statistics import ApiStatistics
    from ottla.coordinator.group.lag import GroupLag
    from ottla.replica.partition import Partition
    from ottla.replica.statistics import ReplicaStatistics
    from ottla.storage.cleaner.cleaner import CleanerStatistics

__all__ = ["ClusterCounts", "HostFigures", "Recent", "Scrape"]

# What is recent: at least this long, at most twice as long.
RECENT_SECONDS = 60.0

# Partitions looked at between two chances for the node to work.
PARTITIONS_PER_STEP = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFigures:
    """What only the edge of the node knows; the times are counted like those of requests."""

    connections: dict[str, int]
    loop_delays: Sequence[int]
    loop_delay_seconds: float
    loop_idle_ratio: float
    # How long scrapes have held the loop at a time.
    scrape_steps: Sequence[int]
    scrape_step_seconds: float
    worker_tasks: int
    worker_threads: int
    cpu_seconds: float
    resident_bytes: int
    virtual_bytes: int
    open_files: int
    open_files_max: int
    threads: int
    start_time_seconds: float
    garbage_collections: tuple[int, ...]


class ClusterCounts(NamedTuple):
    """What the metadata says of all partitions of the cluster."""

    topics: int
    partitions: int
    without_leader: int
    not_on_preferred: int
    reassigning_here: int


class Scrape:
    """Made anew for every scrape; the readers in the tables take what they need from it."""

    def __init__(self, broker: Broker, host: HostFigures, recent: Recent) -> None:
        self.broker = broker
        self.host = host
        self.recent = recent
        # Counted in `prepare`, before anybody reads it.
        self.replicas: ReplicaStatistics
        self.cleaner: CleanerStatistics = broker.logs.cleaner.statistics()
        self.partitions: list[Partition] = list(broker.replicas.partitions())
        self.cluster = ClusterCounts(0, 0, 0, 0, 0)
        self._lags: list[GroupLag] | None = None

    def prepare(self) -> Iterator[str]:
        """Counts the partitions here and of the whole cluster, stopping now and then."""
        counting = replica_statistics(self.broker.replicas)
        while True:
            try:
                next(counting)
            except StopIteration as end:
                self.replicas = end.value
                break
            yield ""
        image = self.broker.metadata.image
        node_id = self.broker.node_id
        partitions = without_leader = not_on_preferred = reassigning = seen = 0
        for topic in image.topics.by_id.values():
            partitions += len(topic.partitions)
            for partition in topic.partitions.values():
                if partition.leader == NO_LEADER:
                    without_leader += 1
                if partition.replicas and partition.leader != partition.replicas[0]:
                    not_on_preferred += 1
                if partition.leader == node_id and (partition.adding_replicas or partition.removing_replicas):
                    reassigning += 1
            if partitions - seen >= PARTITIONS_PER_STEP:
                seen = partitions
                yield ""
        self.cluster = ClusterCounts(len(image.topics.by_id), partitions, without_leader, not_on_preferred, reassigning)

    @property
    def is_active_controller(self) -> bool:
        controller = self.broker.local_controller
        return controller is not None and controller.is_active

    def apis(self) -> Iterator[tuple[str, ApiStatistics]]:
        """By the names that Kafka has for them: fetches come thrice, as a whole and by who has sent them."""
        counted = self.broker.statistics
        for api_key, statistics in sorted(counted.apis.items()):
            if api_key == ApiKey.FETCH:
                of_followers = counted.api_for_brokers(api_key)
                yield "Fetch", statistics.plus(of_followers)
                yield "FetchConsumer", statistics
                yield "FetchFollower", of_followers
            else:
                yield API_SPECS[ApiKey(api_key)].name, statistics

    def lags(self) -> Iterator[GroupLag]:
        """Computed by the first who asks, one group at a time, and kept for the others."""
        if self._lags is not None:
            yield from self._lags
            return
        known = []
        for lag in self.broker.group_coordination.lags():
            known.append(lag)
            yield lag
        self._lags = known


class Recent:
    """What has been counted over the last minute or two, for figures that should not look back for ever."""

    def __init__(self, now: float) -> None:
        # (when, by name) of the counts that recent figures are measured from, and of those that will follow them.
        self._before: tuple[float, dict[str, list[int]]] = (now, {})
        self._next = self._before
        self._seen: dict[str, list[int]] = {}

    def growth(self, name: str, places: Sequence[int]) -> list[int]:
        """How much the counts of this name have grown."""
        self._seen[name] = list(places)
        before = self._before[1].get(name)
        if before is None:
            return list(places)
        return [now - then for now, then in zip(places, before, strict=True)]

    def end_scrape(self, now: float) -> None:
        seen, self._seen = self._seen, {}
        if now - self._next[0] >= RECENT_SECONDS:
            self._before, self._next = self._next, (now, seen)
