"""All partitions of this broker, which follow the cluster's metadata.

`ReplicaManager` is a metadata publisher: it creates (`openings`) and deletes logs, changes leadership, and applies
topic configurations. Handlers look up partitions by topic name (older protocol versions) or by topic id, which
distinguishes a topic from a deleted topic of the same name (KIP-516).

Everything runs on the loop's thread; there are no locks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from ottla.model.config import LogConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.model.ports import Lane, World
from ottla.model.slices import Slices
from ottla.records.validate import ProduceSettings
from ottla.replica.counters import PartitionCounters
from ottla.replica.directory_reporter import DirectoryReporter
from ottla.replica.fetch_sessions import FetchEntry, FetchSessions
from ottla.replica.fetcher_pool import FetcherPool
from ottla.replica.isr import IsrKeeper
from ottla.replica.large_changes import LargeChanges
from ottla.replica.late_logs import LateLogs, host_opened_log
from ottla.replica.lost_replicas import check_may_lead, forget_offline, lost_replicas
from ottla.replica.nearest import RACK_AWARE_SELECTOR
from ottla.replica.openings import Openings
from ottla.replica.parked import Parking
from ottla.replica.partition import Partition
from ottla.replica.statistics import ReplicaStatistics, replica_statistics
from ottla.replica.throttles import ReplicationThrottles
from ottla.replica.validations import Validations
from ottla.replica.views import ClusterView, ControllerChannel, DeltaView, PartitionView, TopicView

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.replica.repairs import Repairs
    from ottla.storage.manager import LogManager
    from ottla.wire.peers import Peers

__all__ = ["HostedTopic", "ReplicaManager", "ReplicaStatistics"]

logger = logging.getLogger("ottla.replica.manager")
_TOPIC_RESOURCE = 2


class HostedTopic:
    """The partitions of one topic with a replica on this broker."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: Uuid) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, Partition] = {}


class ReplicaManager:
    """Looks up partitions, and applies metadata to them."""

    __slots__ = (
        "_repairs",
        "_world",
        "by_id",
        "by_name",
        "clock",
        "config",
        "departed",
        "directory_reporter",
        "disk_readers",
        "fetchers",
        "image",
        "isr_keeper",
        "large_changes",
        "late_logs",
        "logs",
        "lost",
        "node_id",
        "offline",
        "openings",
        "parking",
        "reads_by_rack",
        "sessions",
        "slices",
        "throttles",
        "validations",
    )

    def __init__(self, *, node_id: int, config: BrokerConfig, world: World, logs: LogManager) -> None:
        self.node_id = node_id
        self.config = config
        self.logs = logs
        self.clock = world.clock
        self.validations = Validations(world)
        self._world = world
        self.parking = Parking(world.scheduler)
        self.slices = Slices(world.scheduler)  # Runs fetches that are too large for one turn of the loop.
        self.disk_readers = world.workers.lane(Lane.READS)
        self.throttles = ReplicationThrottles(config, world.clock)
        self.sessions = FetchSessions(slots_max=config.max_incremental_fetch_session_cache_slots, random=world.random)
        # Whether consumers read from a replica in their rack (KIP-392).
        self.reads_by_rack = config.replica_selector_class == RACK_AWARE_SELECTOR
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}  # By the bytes of the id: a lookup by `Uuid` calls Python code.
        # Replicas without a log, for example because the disk was full.
        self.offline: set[TopicPartition] = set()
        # The offline replicas whose log directory failed. An empty log must not silently replace a lost log.
        self.lost: set[TopicPartition] = set()
        self.late_logs = LateLogs(world.scheduler, self.offline, self.retry_late, logs.is_postponed)
        # Replicas whose logs are about to be created.
        self.openings = Openings(world.scheduler, self._apply_newest)
        self.large_changes = LargeChanges(world.scheduler, self._apply_newest, self.present, node_id=node_id)
        # Counters of partitions that have left this broker.
        self.departed = PartitionCounters()
        self.image: ClusterView | None = None
        # Fetches from leaders, and changes in-sync sets; None before `connect`.
        self.fetchers: FetcherPool | None = None
        self.isr_keeper: IsrKeeper | None = None
        self.directory_reporter: DirectoryReporter | None = None
        self._repairs: Repairs | None = None

    def connect(self, *, peers: Peers, controller: ControllerChannel, broker_epoch: Callable[[], int]) -> None:
        """Starts replication: followers fetch, leaders watch their followers. Called once, before or after `start`."""
        assert self.fetchers is None, "connected twice"
        self.isr_keeper = IsrKeeper(
            node_id=self.node_id,
            world=self._world,
            lag_ms_max=self.config.replica_lag_time_max_ms,
            controller=controller,
            broker_epoch=broker_epoch,
            cluster=lambda: self.image,
            partitions=self.partitions,
        )
        self.isr_keeper.start()
        self.directory_reporter = DirectoryReporter(
            node_id=self.node_id, scheduler=self._world.scheduler, controller=controller, broker_epoch=broker_epoch
        )
        self.logs.on_moved.append(self._on_moved)
        self.logs.on_log_failure.append(self._on_log_failed)
        self.logs.on_segment_damaged.append(self.repair)
        self.fetchers = FetcherPool(
            node_id=self.node_id,
            config=self.config,
            world=self._world,
            peers=peers,
            cleaner=self.logs.cleaner,
            broker_epoch=broker_epoch,
            throttles=self.throttles,
        )
        if self.image is not None:
            self.fetchers.on_brokers(self.image.brokers)
        for partition in self.partitions():
            partition.connect(self.isr_keeper)
            self._repair_all(partition)
            if not partition.is_leader:
                self.fetchers.follow(partition)

    def close(self) -> None:
        """Stops replication. The logs may be closed then."""
        self.openings.clear()
        self.large_changes.clear()
        self.validations.stop()
        for part in (self.late_logs, self.fetchers, self.isr_keeper, self.directory_reporter, self._repairs):
            if part is not None:
                part.close()

    # Lookups.

    def present(self, topic: str, index: int) -> Partition | None:
        """The partition, if its log is open."""
        hosted = self.by_name.get(topic)
        return None if hosted is None else hosted.partitions.get(index)

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, if this broker has a replica. A log that waits in `openings` is created now.

        The result is None for a new partition that still waits in `large_changes`. Internal topics never wait there.
        """
        partition = self.present(topic, index)
        if partition is None and self.openings:
            self.openings.open_now(TopicPartition(topic, index), at_any_rate=True)
            partition = self.present(topic, index)
        return partition

    def look_up(self, topic: str, index: int) -> Partition | ErrorCode:
        """The partition, or the error for a client if this broker has no replica of it."""
        partition = self.present(topic, index)
        if partition is None and self.openings:
            self.openings.open_now(TopicPartition(topic, index))
            partition = self.present(topic, index)
        if partition is not None:
            return partition
        if self.offline and TopicPartition(topic, index) in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.image is not None and self.image.topics.partition(topic, index) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def find(self, topic: str, index: int) -> Partition:
        """Like `look_up`, but raises the error."""
        result = self.look_up(topic, index)
        if not isinstance(result, Partition):
            raise KafkaError(result)
        return result

    def find_by_id(self, topic_id: Uuid, index: int) -> Partition:
        name = self.topic_name(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self.find(name, index)

    def topic_name(self, topic_id: Uuid) -> str | None:
        hosted = self.by_id.get(topic_id.bytes)
        if hosted is not None:
            return hosted.name
        topic = None if self.image is None else self.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def resolve(self, entry: FetchEntry) -> Partition | ErrorCode:
        """The partition of a fetch entry, which the entry remembers; or the error.

        Returns the error instead of raising it, because a client may list a hundred thousand unknown partitions.
        """
        name: str | None = entry.topic
        if entry.topic_id:
            name = self.topic_name(entry.topic_id)
            if name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        result = self.look_up(name or "", entry.index)
        if isinstance(result, Partition):
            entry.resolve(result)
        return result

    def partitions(self) -> Iterator[Partition]:
        for hosted in self.by_name.values():
            yield from hosted.partitions.values()

    def invariants(self) -> None:
        for partition in self.partitions():
            partition.invariants()
        self.sessions.invariants()

    def statistics(self) -> ReplicaStatistics:
        """The statistics in one step; `replica_statistics` computes them in several."""
        counting = replica_statistics(self)
        while True:
            try:
                next(counting)
            except StopIteration as end:
                return cast("ReplicaStatistics", end.value)

    # Metadata.

    def start(self, image: ClusterView) -> None:
        """Applies a whole image, at start-up, after the logs have been opened."""
        self._take_image(image)
        self.lost |= lost_replicas(image, self.logs, self.node_id)
        self.offline |= self.lost
        for topic in image.topics.by_id.values():
            self._apply_topic(topic.name, topic.topic_id, topic.partitions.items(), image)
        self.logs.on_opened_late.append(lambda *opened: host_opened_log(self, *opened))

    def publish(self, delta: DeltaView, image: ClusterView) -> None:
        """Applies one committed change of the metadata."""
        self._take_image(image)
        for deleted in delta.topics.deleted.values():
            self._delete_topic(deleted)
        for name, topic_id, views in self.large_changes.urgent(delta):
            self._apply_topic(name, topic_id, views, image)
        for resource in delta.configs_changed:
            if resource.type == _TOPIC_RESOURCE:
                self._apply_topic_config(resource.name, image)
        if delta.features_changed:
            # A new metadata version may accept directory assignments (KIP-858), which were rejected before.
            if self.directory_reporter is not None:
                self.directory_reporter.on_features_changed()
            for partition in self.partitions():
                self._on_moved(partition.topic_partition)
        if self.fetchers is not None:
            self.fetchers.tidy()

    def _take_image(self, image: ClusterView) -> None:
        before, self.image = self.image, image
        if self.fetchers is not None and (before is None or before.brokers is not image.brokers):
            self.fetchers.on_brokers(image.brokers)

    def on_broker_config(self, config: BrokerConfig) -> None:
        """Applies changed broker defaults, also to topics that do not override them."""
        self.config = config
        self.sessions.resize(config.max_incremental_fetch_session_cache_slots)
        self.throttles.on_broker_config(config)
        if self.fetchers is not None:
            self.fetchers.on_broker_config(config)
        if self.image is not None:
            for name in self.by_name:
                self._apply_topic_config(name, self.image)

    def on_directory_failed(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """A log directory failed: its partitions return a retriable error until they are moved."""
        for topic_partition in topic_partitions:
            self.offline.add(topic_partition)
            self.lost.add(topic_partition)
            partition = self.present(*topic_partition)
            if partition is not None:
                partition.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
                self._forget(partition)

    def _on_log_failed(self, topic_partition: TopicPartition) -> None:
        """Recovers a log with damaged files. Another in-sync replica leads meanwhile."""
        self.on_directory_failed((topic_partition,))
        self.lost.discard(topic_partition)
        self.late_logs.retry_soon()

    def repair(self, topic_partition: TopicPartition, base_offset: int) -> None:
        """Fetches a damaged segment from another replica."""
        if self._repairs is None and self.fetchers is not None:
            # Few nodes ever need it.
            from ottla.replica.repairs import Repairs

            self._repairs = Repairs(self, self._world, self.fetchers.peers)
        if self._repairs is not None:
            self._repairs.add(topic_partition, base_offset)

    def _repair_all(self, partition: Partition) -> None:
        """Damage that was found when the log was opened."""
        for base_offset in partition.log.files.failures.damaged_segments:
            self.repair(partition.topic_partition, base_offset)

    def _apply_topic(
        self, name: str, topic_id: Uuid, partitions: Iterable[tuple[int, PartitionView]], image: ClusterView
    ) -> None:
        config: LogConfig | None = None
        settings: ProduceSettings | None = None
        for index, view in partitions:
            topic_partition, partition = TopicPartition(name, index), self.present(name, index)
            if self.node_id not in view.replicas:
                if partition is not None:
                    self._delete(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                elif topic_partition in self.offline:
                    forget_offline(topic_partition, topic_id, self)
                continue
            if partition is None and topic_partition in self.lost:
                continue
            if partition is None:
                is_led = view.leader == self.node_id
                if self.logs.get(topic_partition) is None and not self._may_create(topic_partition, topic_id, is_led):
                    continue
                if config is None:
                    config = self._log_config(name, image)
                    settings = ProduceSettings.from_log_config(config)
                partition = self._create(topic_partition, topic_id, config, view)
                if partition is None:
                    continue
                assert settings is not None
                partition.configure(config, settings)
            self._report_directory(topic_partition, topic_id, view)
            self._apply_leadership(partition, view)

    def _apply_newest(self, name: str, topic_id: Uuid, indexes: list[int]) -> None:
        """Applies partitions that `openings` or `large_changes` had queued, as the current image describes them."""
        assert self.image is not None
        topic = self.image.topics.by_id.get(topic_id)
        if topic is not None:
            views = [(index, topic.partitions[index]) for index in indexes if index in topic.partitions]
            self._apply_topic(name, topic_id, views, self.image)
            self.late_logs.created(name, indexes)

    def _may_create(self, topic_partition: TopicPartition, topic_id: Uuid, is_led: bool) -> bool:
        """Whether the log is created now; otherwise it is queued."""
        leaving = self.logs.maintenance.prompt_checkpoints.leaving(topic_partition)
        if leaving is None and self.openings.admits():
            return True
        free = Deferred.resolved(None) if leaving is None else leaving
        free.when_done(lambda _: self.openings.add(topic_partition, topic_id, is_led=is_led))
        return False

    def _report_directory(self, topic_partition: TopicPartition, topic_id: Uuid, view: PartitionView) -> None:
        """Reports the replica's log directory to the controller, if the metadata names another directory or none."""
        directory = self.logs.directory_of(topic_partition)
        if (
            self.directory_reporter is not None
            and directory is not None
            and not directory.is_offline
            and view.directory(self.node_id) != directory.directory_id
        ):
            self.directory_reporter.report(topic_id, topic_partition.partition, directory.directory_id)

    def _on_moved(self, topic_partition: TopicPartition) -> None:
        partition = self.present(*topic_partition)
        view = None if self.image is None else self.image.topics.partition(*topic_partition)
        if partition is not None and view is not None:
            self._report_directory(topic_partition, partition.topic_id, view)

    def _create(
        self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig, view: PartitionView
    ) -> Partition | None:
        try:
            log = self.logs.get_or_create(topic_partition, topic_id, config, directory_id=view.directory(self.node_id))
            if log.doubtful_from is not None:
                check_may_lead(log, log.doubtful_from, view, self.node_id, self.directory_reporter)
        except KafkaError as error:
            # Logged once: the creation is retried every second while the disk is full.
            if topic_partition not in self.offline:
                logger.error("could not create the log of %s, will retry: %s", topic_partition, error.message)
            has_damaged_log = self.logs.is_refused(topic_partition) or self.logs.get(topic_partition) is not None
            if self.directory_reporter is not None and has_damaged_log:
                self.directory_reporter.report_lost(topic_id, topic_partition.partition, view)
            self.offline.add(topic_partition)
            self.late_logs.retry_soon()
            return None
        partition = Partition(
            topic_partition, topic_id, log, node_id=self.node_id, parking=self.parking, isr_keeper=self.isr_keeper
        )
        name, hosted = topic_partition.topic, self.by_id.get(topic_id.bytes)
        if hosted is None:
            hosted = self.by_id[topic_id.bytes] = self.by_name[name] = HostedTopic(name, topic_id)
        hosted.partitions[topic_partition.partition] = partition
        self.offline.discard(topic_partition)
        if log.files.failures.damaged_segments:
            self._repair_all(partition)
        return partition

    def retry_late(self, topic_partition: TopicPartition) -> None:
        if self.image is None or not self.logs.online_directories():
            return
        name, index = topic_partition
        topic = self.image.topics.by_name.get(name)
        view = None if topic is None else topic.partitions.get(index)
        if topic is None or view is None or self.node_id not in view.replicas:
            forget_offline(topic_partition, None if topic is None else topic.topic_id, self)
        elif topic_partition not in self.lost:
            self._apply_newest(name, topic.topic_id, [index])

    def _log_config(self, name: str, image: ClusterView) -> LogConfig:
        """The topic's configuration. An invalid stored value is ignored, and does not stop the node."""
        config, problems = LogConfig.from_stored(self.config, image.configs.of_topic(name))
        for problem in problems:
            logger.error("ignored an invalid configuration value of topic %s: %s", name, problem)
        return config

    def _apply_leadership(self, partition: Partition, view: PartitionView) -> None:
        if view.leader == self.node_id:
            if self.fetchers is not None:
                self.fetchers.unfollow(partition)
            partition.become_leader(
                epoch=view.leader_epoch,
                partition_epoch=view.partition_epoch,
                replicas=view.replicas,
                isr=view.isr,
                now_ms=int(self.clock.monotonic() * 1000),
            )
        else:
            partition.become_follower(
                leader_id=view.leader, epoch=view.leader_epoch, partition_epoch=view.partition_epoch
            )
            if self.fetchers is not None:
                self.fetchers.follow(partition)

    def _apply_topic_config(self, name: str, image: ClusterView) -> None:
        hosted = self.by_name.get(name)
        if hosted is None:
            return
        config = self._log_config(name, image)
        settings = ProduceSettings.from_log_config(config)
        for partition in hosted.partitions.values():
            partition.configure(config, settings)

    def _delete_topic(self, topic: TopicView) -> None:
        hosted = self.by_id.get(topic.topic_id.bytes)
        if hosted is not None:
            for partition in list(hosted.partitions.values()):
                self._delete(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for index in topic.partitions:
            topic_partition = TopicPartition(topic.name, index)
            # A log that may not lead (`check_may_lead`) has no `Partition`.
            if self.logs.topic_id_of(topic_partition) == topic.topic_id:
                self.logs.delete(topic_partition)
            self.offline.discard(topic_partition)
            self.lost.discard(topic_partition)

    def _delete(self, partition: Partition, error: ErrorCode) -> None:
        """The replica leaves this broker: its parked requests fail, and its log is deleted."""
        partition.refuse(error)
        self._forget(partition)
        self.logs.delete(partition.topic_partition)

    def _forget(self, partition: Partition) -> None:
        if self.fetchers is not None:
            self.fetchers.unfollow(partition)
        self.departed.add(partition.counters)
        hosted = self.by_id[partition.topic_id.bytes]
        del hosted.partitions[partition.index]
        if not hosted.partitions:
            del self.by_id[hosted.topic_id.bytes]
            del self.by_name[hosted.name]
