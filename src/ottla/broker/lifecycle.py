"""Start and stop of a node: the order of its machines, and the reasons for it.

Start:

1. The data directories are identified and locked, and their logs are recovered. New directories are formatted: a node
   with the controller role begins a cluster, any other node asks its controller for the cluster id.
2. The metadata log is opened and replayed into an image, which shows what should be on this disk. A node without the
   controller role first catches up with the controller.
3. The broker registers with the controller and waits until it has replayed its own registration. In an older image it
   may still lead partitions whose newest records it has lost.
4. Partitions apply the image and follow it from then on. Retention and compaction begin now, because only now are all
   settings known. Then the broker is unfenced.

The client listeners open after step 4, so that the first answer is right. A controller's listener opens earlier, after
step 2, because the other nodes need it for their start; the standard authorizer knows that its ACLs may be old then.

Stop is the reverse: leaderships move to other brokers if there are any (`leave`), the logs are flushed, closed and
marked as cleanly shut down, the metadata log is closed, and the locks are released last (`stop`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.authorization import configured_authorizer, configured_principal_builder
from ottla.broker.broker import Broker
from ottla.broker.context import ListenerInfo
from ottla.broker.controller_role import ControllerRole, own_endpoints
from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.metadata_source import (
    MetadataSource,
    RemoteMetadata,
    controller_addresses,
    learn_cluster_id,
)
from ottla.broker.session import BrokerSession
from ottla.broker.start_errors import START_FAILURES, StartError, start_error
from ottla.metadata.format import FormattedStorage, StorageNotFormattedError, format_storage
from ottla.metadata.versions import supported_features
from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition, Uuid
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.replica.follower_serving import tell_followers
from ottla.replica.manager import ReplicaManager
from ottla.storage.directories import lock_directory
from ottla.storage.manager import OPEN_FILES_MAX, LogManager
from ottla.storage.meta_properties import read_meta_properties

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Lock, World
    from ottla.storage.directories import LogDirectory
    from ottla.wire.peers import Peers

__all__ = ["NodeLifecycle", "StartError"]

logger = logging.getLogger("ottla.broker.lifecycle")


# The interval at which a node in controlled shutdown checks whether enough controllers are left to agree to it.
LEAVE_CHECK_SECONDS = 0.2


class NodeLifecycle:
    """Starts and stops all machines of one node, for every combination of roles."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        world: World,
        peers: Peers,
        controller_peers: Peers | None = None,
        listeners: Sequence[ListenerInfo],
        open_files_max: int = OPEN_FILES_MAX,
    ) -> None:
        self._config = config
        self._open_files_max = open_files_max
        self._world = world
        # Connections to brokers, and to controllers, whose listeners may have other encryption and authentication.
        self._peers = peers
        self._controller_peers = controller_peers or peers
        self._listeners = listeners
        self._storage: FormattedStorage | None = None
        self._metadata_lock: Lock | None = None
        self._logs: LogManager | None = None
        self._metadata: MetadataSource | None = None
        self._session: BrokerSession | None = None
        self._broker: Broker | None = None
        # True from `leave` or `stop` on: a start that waits for a controller ends without an outcome.
        self._is_cancelled = False
        # True while the start waits for a controller on another node. `leave` and `stop` may cancel such a start.
        self.waits_for_controller = False
        # Called when the directories are locked.
        self.on_locked: Callable[[], object] | None = None
        # Called with the broker when the controller of this node can serve requests. Only with the controller role.
        self.on_controller: Callable[[Broker], object] | None = None
        # Called when the node cannot continue, for example because its metadata log failed.
        self.on_fatal: Callable[[BaseException], object] | None = None

    def start(self) -> Deferred[Broker]:
        """Resolves with the broker when the client listeners may open, or fails with StartError."""
        started: Deferred[Broker] = Deferred()
        try:
            self._check_voter_directory()
            if self._begins_cluster() or self._is_formatted():
                self._open(None, started)
            else:
                self._join(started)
        except Exception as error:  # noqa: BLE001 - every error fails the start
            started.fail(start_error(error))
        return started

    def leave(self) -> Deferred[None]:
        """Moves this broker's leaderships while it still serves. Resolves when it leads no partition any more."""
        self._is_cancelled = True
        if self._session is None or self._session.epoch < 0:
            return Deferred.resolved(None)
        if not self._config.controlled_shutdown_enable:
            # Without controlled shutdown, the controller moves the leaderships when the session ends.
            self._session.close()
            return Deferred.resolved(None)
        assert self._metadata is not None
        if self._broker is not None:
            tell_followers(self._broker.replicas.partitions())
        departure = self._session.leave(
            is_last=self._config.is_controller and not self._has_successors(),
            may_have_other_controller=self._metadata.waits_for_others,
        )
        self._watch_shutdown_consent(departure)
        return departure

    def _watch_shutdown_consent(self, departure: Deferred[None]) -> None:
        """Ends the wait for consent if too few controllers are left: then no controller can commit a decision."""

        def on_known(is_cut_off: Deferred[bool]) -> None:
            if is_cut_off.result() and self._session is not None:
                self._session.leave_at_once()
            else:
                self._watch_shutdown_consent(departure)

        def look() -> None:
            if not departure.done and self._metadata is not None:
                self._metadata.is_cut_off().when_done(on_known)

        self._world.scheduler.call_later(LEAVE_CHECK_SECONDS, look)

    def stop(self) -> Deferred[None]:
        """Stops all machines in order. Resolves when the clean-shutdown marker is durable."""
        self._is_cancelled = True
        if self._broker is not None and self._broker.audit is not None:
            self._broker.audit.close()
        if self._session is not None:
            self._session.close()
        if self._metadata is not None:
            self._metadata.stop()
        return self._close_logs()

    # -- starting --------------------------------------------------------------------------------------------------

    def _begins_cluster(self) -> bool:
        """True if new directories mean a new cluster. A single controller begins one; all other nodes join one."""
        config = self._config
        if not config.is_controller:
            return False
        if config.quorum_voters:
            return len(config.quorum_voters) == 1
        own = [(listener.advertised_host, listener.advertised_port) for listener in self._listeners]
        endpoints = (*config.controller_endpoints, *config.advertised_controller_endpoints)
        own += [(endpoint.host, endpoint.port) for endpoint in endpoints]
        return set(own).issuperset(config.quorum_bootstrap_servers)

    def _first_voters(self, directory_id: Uuid) -> VoterSet:
        """The voters of a new cluster without configured voters: this node. Other controllers may join later."""
        return VoterSet([Voter(ReplicaKey(self._config.node_id, directory_id), own_endpoints(self._listeners))])

    def _is_formatted(self) -> bool:
        directories = (*self._config.log_dirs, self._metadata_directory)
        return any(read_meta_properties(self._world.files, directory) is not None for directory in directories)

    def _check_voter_directory(self) -> None:
        """Refuses to start a voter whose metadata directory is empty, unless a new cluster begins.

        The directory held the log and the votes of this voter. Without them the voter could help to elect a leader that
        lacks committed records. With voters in the log (KIP-853) an empty directory is a new replica without a vote.
        """
        config, begins_cluster = self._config, self._begins_cluster()
        if not config.is_controller or not (config.quorum_voters or begins_cluster):
            return
        if read_meta_properties(self._world.files, self._metadata_directory) is not None:
            return
        if self._is_formatted() or not begins_cluster:
            raise StorageNotFormattedError(
                f"{self._metadata_directory} is not formatted, and this node is a voter of the metadata quorum. "
                "Restore the directory, or mount its disk. If this voter has never run, format it with the "
                "cluster's id: ottla storage format."
            )

    def _join(self, started: Deferred[Broker]) -> None:
        """Formats the new directories of a broker for the cluster of its controller."""

        def on_learnt(learnt: Deferred[str]) -> None:
            if self._is_cancelled:
                return
            self.waits_for_controller = False
            try:
                self._open(learnt.result(), started)
            except Exception as error:  # noqa: BLE001 - every error fails the start
                started.fail(start_error(error))

        self.waits_for_controller = True
        learn_cluster_id(
            world=self._world,
            peers=self._controller_peers,
            controllers=controller_addresses(self._config),
            timeout_ms=self._config.initial_broker_registration_timeout_ms,
        ).when_done(on_learnt)

    def _open(self, cluster_id: str | None, started: Deferred[Broker]) -> None:
        self._storage = self._identify_storage(cluster_id)
        if self._metadata_directory.rstrip("/") not in [path.rstrip("/") for path in self._config.log_dirs]:
            # The log manager only locks the log directories.
            self._metadata_lock = lock_directory(self._world.files, self._metadata_directory)
        self._logs = LogManager(
            self._world, self._config, cluster_id=self._storage.cluster_id, open_files_max=self._open_files_max
        )
        self._logs.on_directory_failure.append(self._on_directory_failure)
        opened = self._logs.open(self._topic_overrides, begins_upkeep=False)
        opened.when_done(lambda _: self._on_logs_open(opened, started))

    def _identify_storage(self, cluster_id: str | None) -> FormattedStorage:
        config = self._config
        storage = format_storage(
            self._world.files,
            log_dirs=config.log_dirs,
            metadata_log_dir=self._metadata_directory,
            node_id=config.node_id,
            random=self._world.random,
            now_ms=self._world.clock.now_ms(),
            cluster_id=cluster_id,
            first_voters=self._first_voters if self._begins_cluster() and not config.quorum_voters else None,
        )
        if storage.is_new:
            logger.info("formatted %s for the cluster %s", ", ".join(config.log_dirs), storage.cluster_id)
        return storage

    @property
    def _metadata_directory(self) -> str:
        directory = self._config.metadata_log_dir
        assert directory is not None, "it defaults to the first of log.dirs"
        return directory

    def _topic_overrides(self, topic: str) -> Mapping[str, str]:
        """The settings of a topic. Called when its log is opened, after the directories were locked."""
        return self._opened_metadata().publishers.image.configs.of_topic(topic)

    def _opened_metadata(self) -> MetadataSource:
        if self._metadata is not None:
            return self._metadata
        assert self._storage is not None
        if self._config.is_controller:
            self._metadata = ControllerRole(
                config=self._config,
                world=self._world,
                peers=self._controller_peers,
                storage=self._storage,
                metadata_directory=self._metadata_directory,
                listeners=self._listeners,
                controllers=controller_addresses(self._config),
                on_fatal=self._on_metadata_failure,
            )
        else:
            self._metadata = RemoteMetadata(
                config=self._config,
                world=self._world,
                peers=self._controller_peers,
                storage=self._storage,
                metadata_directory=self._metadata_directory,
                controllers=controller_addresses(self._config),
                on_fatal=self._on_metadata_failure,
            )
        return self._metadata

    def _on_logs_open(self, opened: Deferred[None], started: Deferred[Broker]) -> None:
        if self._is_cancelled:
            return
        try:
            opened.result()
            metadata = self._opened_metadata()
            broker, session = self._assemble(metadata)
        except Exception as error:  # noqa: BLE001 - every error fails the start
            started.fail(start_error(error))
            return
        if self.on_locked is not None:
            self.on_locked()
        if metadata.controller is not None and self.on_controller is not None:
            self.on_controller(broker)

        def on_current(current: Deferred[None]) -> None:
            if self._is_cancelled:
                return
            if current.error is not None:
                self._give_up(current.error, started)
            elif self._config.is_broker:
                metadata.followed()
                broker.metadata.add(session)
                session.register().when_done(on_registered)
            else:
                DynamicConfig(broker).follow()
                started.resolve(broker)

        def on_registered(registered: Deferred[int]) -> None:
            self.waits_for_controller = False
            if self._is_cancelled:
                return
            if registered.error is not None:
                self._give_up(registered.error, started)
                return
            try:
                # The image has the registration and therefore every earlier record: the first records of a new cluster,
                # and the present leaders of partitions that this broker led before it crashed.
                self._start_partitions(broker)
            except Exception as error:  # noqa: BLE001 - every error fails the start
                started.fail(start_error(error))
            else:
                self.waits_for_controller = metadata.waits_for_others
                session.unfence().when_done(on_unfenced)

        def on_unfenced(unfenced: Deferred[None]) -> None:
            self.waits_for_controller = False
            if unfenced.error is not None:
                started.fail(start_error(unfenced.error))
            else:
                started.resolve(broker)

        self.waits_for_controller = metadata.waits_for_others
        metadata.start().when_done(on_current)

    def _give_up(self, error: BaseException, started: Deferred[Broker]) -> None:
        """Ends a start that could not join the cluster. The logs are closed unchanged, because nothing was written."""

        def on_stopped(stopped: Deferred[None]) -> None:
            if stopped.error is not None:
                logger.warning("could not close the logs after a failed start: %s", stopped.error)
            started.fail(start_error(error))

        self.stop().when_done(on_stopped)

    def _assemble(self, metadata: MetadataSource) -> tuple[Broker, BrokerSession]:
        assert self._storage is not None
        assert self._logs is not None
        config = self._config
        replicas = ReplicaManager(node_id=config.node_id, config=config, world=self._world, logs=self._logs)
        broker = self._broker = Broker(
            config=config,
            world=self._world,
            node_id=config.node_id,
            cluster_id=self._storage.cluster_id,
            metadata=metadata.publishers,
            logs=self._logs,
            replicas=replicas,
            controller=metadata.gateway,
            supported_features=supported_features(unstable=config.unstable_feature_versions_enable),
            peers=self._peers,
            local_controller=metadata.controller,
            quorum=metadata.quorum,
            authorizer=configured_authorizer(config, metadata.publishers, metadata.caught_up),
            principal_builder=configured_principal_builder(config),
        )
        if config.ottla_audit_authorization != "off" or config.ottla_audit_authentication != "off":
            from ottla.broker.audit.starting import start_audit

            broker.audit = start_audit(broker)
        broker.kraft_version = lambda: metadata.kraft_version
        broker.listeners = {listener.name: listener for listener in self._listeners}
        broker.quota.start(broker.metadata.image)
        broker.metadata.add(broker.quota)
        session = self._session = BrokerSession(
            config=config,
            world=self._world,
            cluster_id=broker.cluster_id,
            listeners=self._listeners,
            directories=[directory.directory_id for directory in self._logs.online_directories()],
            previous_epoch=self._logs.previous_broker_epoch,
            metadata=metadata.publishers,
            controller=metadata.gateway,
        )
        session.on_superseded = self._on_superseded
        broker.may_be_replaced = session.may_be_replaced
        logs = self._logs
        session.cordoned_directories = lambda: [directory.directory_id for directory in logs.cordoned_directories()]
        return broker, session

    def _start_partitions(self, broker: Broker) -> None:
        """Sets aside logs that the metadata does not place here, starts the replicas, and follows the metadata."""
        image = broker.metadata.image
        DynamicConfig(broker).follow()
        for topic_partition, topic_id in broker.logs.partitions():
            topic = image.topics.by_name.get(topic_partition.topic)
            partition = None if topic is None else topic.partitions.get(topic_partition.partition)
            is_replica = partition is not None and broker.node_id in partition.replicas
            if topic is None or not is_replica or (topic_id and topic_id != topic.topic_id):
                logger.warning("set aside the stray log of %s: the metadata has no such replica here", topic_partition)
                broker.logs.set_aside_stray(topic_partition)
        session = self._session
        assert session is not None
        broker.replicas.connect(peers=self._peers, controller=broker.controller, broker_epoch=lambda: session.epoch)
        broker.replicas.start(image)
        # Not earlier: before a node has caught up, its settings may be outdated and lack the dynamic defaults of all
        # brokers. With such settings retention and compaction would delete records that must be kept.
        broker.logs.begin_upkeep()
        broker.group_coordination.start(image)
        broker.transaction_coordination.start(image)
        broker.metadata.add(broker.replicas)
        # The coordinators follow the replicas, which then already lead their partitions.
        broker.metadata.add(broker.group_coordination)
        broker.metadata.add(broker.transaction_coordination)

    # -- failing and stopping --------------------------------------------------------------------------------------

    def _on_directory_failure(self, directory: LogDirectory, lost: list[TopicPartition]) -> None:
        logger.error(
            "the log directory %s is offline, with %d partitions: %s",
            directory.path,
            len(lost),
            directory.error,
        )
        if self._session is not None:
            self._session.offline_directories.add(directory.directory_id)
        if self._broker is not None:
            self._broker.replicas.on_directory_failed(lost)
        assert self._logs is not None
        if self._broker is not None and (
            not self._logs.online_directories() or directory.path == self._metadata_directory
        ):
            self._fatal(StartError(f"The log directory {directory.path} failed. The node cannot run without it."))

    def _on_metadata_failure(self, error: BaseException) -> None:
        if not isinstance(error, START_FAILURES):
            logger.error("the node stops, because a defect has stopped its metadata", exc_info=error)
        self._fatal(StartError(f"The metadata log failed: {error}."))

    def _on_superseded(self) -> None:
        self._fatal(StartError(f"Another process has registered as broker {self._config.node_id}; this process ends."))

    def _fatal(self, error: BaseException) -> None:
        if self.on_fatal is not None:
            self.on_fatal(error)

    def _has_successors(self) -> bool:
        """True if another active broker could take over leaderships of this one."""
        assert self._broker is not None
        own_id = self._config.node_id
        brokers = self._broker.metadata.image.brokers
        return any(broker.active for broker_id, broker in brokers.items() if broker_id != own_id)

    def _close_logs(self) -> Deferred[None]:
        closed: Deferred[None] = Deferred()
        if self._logs is None:
            closed.resolve(None)
            return closed
        if self._broker is not None:
            self._broker.is_stopping = True
            self._broker.group_coordination.close()
            self._broker.transaction_coordination.close()
            # Responses from other brokers that are still in flight must not be appended to a closed log.
            self._broker.replicas.close()

        def on_closed(outcome: Deferred[None]) -> None:
            failure = outcome.error
            if self._metadata is not None:
                try:
                    self._metadata.close()
                except OSError as error:
                    # No acknowledged record is lost, because it was durable before its acknowledgement.
                    failure = failure or error
            if self._metadata_lock is not None:
                self._metadata_lock.release()
            if failure is not None:
                closed.fail(failure)
            else:
                closed.resolve(None)

        self._logs.close(broker_epoch=self._clean_shutdown_epoch(self._logs)).when_done(on_closed)
        return closed

    def _clean_shutdown_epoch(self, logs: LogManager) -> int:
        """The epoch that shows at the next start that nothing was lost (KIP-966).

        A run that was never registered has written nothing, so the epoch of the previous run stays valid.
        """
        if self._session is not None and self._session.epoch >= 0:
            return self._session.epoch
        return logs.previous_broker_epoch if logs.had_clean_shutdown else -1
