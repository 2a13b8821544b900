"""One scrape: the node as the readers of the table see it. Values that several readers need are computed once.

`Recent` is kept from scrape to scrape, for metrics of the last minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.metrics.metric import PARTITIONS_PER_STEP
from ottla.metadata.image import NO_LEADER
from ottla.replica.statistics import replica_statistics
from ottla.wire.api import API_SPECS, ApiKey

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.statistics import ApiStatistics
    from ottla.coordinator.group.lag import GroupLag
    from ottla.model.ids import TopicPartition
    from ottla.replica.partition import Partition
    from ottla.replica.statistics import ReplicaStatistics
    from ottla.storage.cleaner.cleaner import CleanerStatistics

__all__ = ["ClusterCounts", "HostFigures", "Recent", "Scrape"]

# Recent values cover at least this time and at most twice this time.
RECENT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFigures:
    """Values that only `host` has. Times are counted like the times of requests."""

    connections: dict[str, int]
    # When the certificates of listeners with TLS expire, in seconds since 1970.
    certificate_ends: dict[str, float]
    loop_delays: Sequence[int]
    loop_delay_seconds: float
    loop_idle_ratio: float
    # The durations for which steps of scrapes have blocked the loop.
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
    """Counts of all partitions of the cluster, from the metadata."""

    topics: int
    partitions: int
    without_leader: int
    not_on_preferred: int
    reassigning_here: int
    # Partitions with a replica on this broker, of which a replica is not in sync.
    out_of_sync_here: int


class Scrape:
    """The state of one scrape. The readers of the tables take their values from it."""

    def __init__(self, broker: Broker, host: HostFigures, recent: Recent) -> None:
        self.broker = broker
        self.host = host
        self.recent = recent
        # Set by `prepare`, before any reader is called.
        self.replicas: ReplicaStatistics
        self.cleaner: CleanerStatistics = broker.logs.cleaner.statistics()
        self.partitions: list[Partition] = list(broker.replicas.partitions())
        self.cluster = ClusterCounts(0, 0, 0, 0, 0, 0)
        # The partitions of damaged segments, with the base offset of the segment.
        self.damaged_segments: list[tuple[TopicPartition, int]] = []
        self._lags: list[GroupLag] | None = None

    def partitions_with_pauses(self) -> Iterator[Partition | None]:
        """The partitions of this broker. None is a pause."""
        for number, partition in enumerate(self.partitions, 1):
            yield partition
            if not number % PARTITIONS_PER_STEP:
                yield None

    def prepare(self) -> Iterator[str]:
        """Counts the partitions of this broker and of the whole cluster, in steps."""
        for number, log in enumerate(list(self.broker.logs), 1):
            for base_offset in log.files.failures.damaged_segments:
                self.damaged_segments.append((log.topic_partition, base_offset))
            if not number % PARTITIONS_PER_STEP:
                yield ""
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
        offline = self.broker.replicas.offline
        partitions = without_leader = not_on_preferred = reassigning = out_of_sync = 0
        for topic in image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                partitions += 1
                if not partitions % PARTITIONS_PER_STEP:
                    yield ""
                if partition.leader == NO_LEADER:
                    without_leader += 1
                if partition.replicas and partition.leader != partition.replicas[0]:
                    not_on_preferred += 1
                if partition.leader == node_id and (partition.adding_replicas or partition.removing_replicas):
                    reassigning += 1
                if node_id in partition.replicas and (topic.name, index) not in offline:
                    out_of_sync += not {*partition.isr, *partition.adding_replicas}.issuperset(partition.replicas)
        self.cluster = ClusterCounts(
            len(image.topics.by_id), partitions, without_leader, not_on_preferred, reassigning, out_of_sync
        )

    @property
    def is_active_controller(self) -> bool:
        controller = self.broker.local_controller
        return controller is not None and controller.is_active

    def apis(self) -> Iterator[tuple[str, ApiStatistics]]:
        """The counters by Kafka's names of the APIs. Fetch appears three times: in total and by kind of sender."""
        counted = self.broker.statistics
        for api_key, statistics in sorted(counted.apis.items()):
            if api_key == ApiKey.FETCH:
                of_followers = counted.api_for_brokers(api_key)
                yield "Fetch", statistics.plus(of_followers)
                yield "FetchConsumer", statistics
                yield "FetchFollower", of_followers
            else:
                yield API_SPECS[ApiKey(api_key)].name, statistics

    def lags(self) -> Iterator[GroupLag | None]:
        """The lags of all groups. The first reader computes them, one group at a time; later readers reuse them.

        None is a pause.
        """
        if self._lags is not None:
            yield from self._lags
            return
        lags = []
        for lag in self.broker.group_coordination.lags():
            if lag is not None:
                lags.append(lag)
            yield lag
        self._lags = lags


class Recent:
    """Counts of the last minute or two, for metrics that must not cover the whole life of the node."""

    def __init__(self, now: float) -> None:
        # The time and the counts by name from which recent values are measured, and those that replace them next.
        self._base: tuple[float, dict[str, list[int]]] = (now, {})
        self._next = self._base
        self._scraped: dict[str, list[int]] = {}

    def growth(self, name: str, places: Sequence[int]) -> list[int]:
        """The growth of the counts of this name in the recent time."""
        self._scraped[name] = list(places)
        base = self._base[1].get(name)
        if base is None:
            return list(places)
        return [now - then for now, then in zip(places, base, strict=True)]

    def end_scrape(self, now: float) -> None:
        counts, self._scraped = self._scraped, {}
        if now - self._next[0] >= RECENT_SECONDS:
            self._base, self._next = self._next, (now, counts)
