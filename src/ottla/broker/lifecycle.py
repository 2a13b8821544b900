"""How a node comes to life and how it ends: which machine starts when, and why in this order.

Start:
1. the data directories are identified (and formatted when they are new), locked, and their logs recovered;
2. the metadata log is opened and replayed into an image, which says what should be on this disk;
3. partitions take up what the image says, and follow it from then on;
4. the broker registers with the controller, and its fence is lifted once it has replayed its own registration.
Only then are clients let in, so that the first answer is a true one.

Stop is the reverse: leaderships are handed over if somebody can take them, the logs are flushed and closed and marked
as cleanly shut down, the metadata log is closed, the locks go last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.broker import Broker
from ottla.broker.context import ListenerInfo
from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.session import BrokerSession
from ottla.metadata.controller import Controller
from ottla.metadata.delta import CorruptMetadataError
from ottla.metadata.format import FormattedStorage, StorageNotFormattedError, format_storage
from ottla.metadata.versions import SUPPORTED_FEATURES
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.quorum.errors import MetadataLogDamagedError, MetadataLogFailedError, MetadataLogUnsupportedError
from ottla.quorum.log import MetadataLogSettings, SingleVoterLog
from ottla.replica.manager import ReplicaManager
from ottla.storage.errors import DirectoryRefused
from ottla.storage.manager import LogManager

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Timer, World
    from ottla.storage.directories import LogDirectory

__all__ = ["NodeLifecycle", "StartError"]

logger = logging.getLogger("ottla.broker.lifecycle")

# The controller looks for silent brokers this many times in a session timeout.
LIVENESS_CHECKS_PER_SESSION = 4


class StartError(Exception):
    """The node cannot run; the message is one sentence for whoever started it."""


class NodeLifecycle:
    """Starts and stops all machines of one node: broker and controller in the same process."""

    def __init__(self, *, config: BrokerConfig, world: World, listeners: Sequence[ListenerInfo]) -> None:
        self._config = config
        self._world = world
        self._listeners = listeners
        self._storage: FormattedStorage | None = None
        self._logs: LogManager | None = None
        self._metadata_log: SingleVoterLog | None = None
        self._controller: Controller | None = None
        self._session: BrokerSession | None = None
        self._broker: Broker | None = None
        self._liveness_timer: Timer | None = None
        # Called once the directories are ours.
        self.on_locked: Callable[[], object] | None = None
        # Called when the node cannot go on, e.g. because its metadata log failed.
        self.on_fatal: Callable[[BaseException], object] | None = None

    def start(self) -> Deferred[Broker]:
        """Resolves with the broker when clients may be let in, or fails with StartError."""
        started: Deferred[Broker] = Deferred()
        try:
            self._check_supported()
            self._storage = self._identify_storage()
            self._logs = LogManager(self._world, self._config, cluster_id=self._storage.cluster_id)
            self._logs.on_directory_failure.append(self._on_directory_failure)
            self._logs.open(self._topic_overrides).when_done(lambda opened: self._on_logs_open(opened, started))
        except _START_FAILURES as error:
            started.fail(_start_error(error))
        return started

    def stop(self) -> Deferred[None]:
        """Ends everything in order; resolves when the clean-shutdown marker is durable."""
        if self._liveness_timer is not None:
            self._liveness_timer.cancel()
        if self._session is None or self._broker is None:
            return self._close_logs()
        self._session.close()
        if not self._has_successors():
            return self._close_logs()
        stopped: Deferred[None] = Deferred()
        self._session.leave().when_done(lambda _: self._close_logs().when_done(_forward(stopped)))
        return stopped

    # -- starting --------------------------------------------------------------------------------------------------

    def _check_supported(self) -> None:
        config = self._config
        if not (config.is_broker and config.is_controller):
            raise StartError(
                f"process.roles is {','.join(config.process_roles)}, but so far only nodes of both roles "
                "(broker,controller) can run."
            )
        if len(config.quorum_voters) > 1:
            raise StartError("controller.quorum.voters names several controllers, but so far there can be only one.")
        for listener in self._listeners:
            if listener.security_protocol != "PLAINTEXT":
                raise StartError(
                    f"The listener {listener.name} asks for {listener.security_protocol}, "
                    "but so far only PLAINTEXT can be served."
                )

    def _identify_storage(self) -> FormattedStorage:
        config = self._config
        storage = format_storage(
            self._world.files,
            log_dirs=config.log_dirs,
            metadata_log_dir=self._metadata_directory,
            node_id=config.node_id,
            random=self._world.random,
            now_ms=self._world.clock.now_ms(),
        )
        if storage.is_new:
            logger.info("formatted %s for the new cluster %s", ", ".join(config.log_dirs), storage.cluster_id)
        return storage

    @property
    def _metadata_directory(self) -> str:
        directory = self._config.metadata_log_dir
        assert directory is not None, "it defaults to the first of log.dirs"
        return directory

    def _topic_overrides(self, topic: str) -> Mapping[str, str]:
        """A topic's own settings, asked for while its log is opened: the directories are locked by then."""
        return self._opened_controller().image.configs.of_topic(topic)

    def _opened_controller(self) -> Controller:
        if self._controller is not None:
            return self._controller
        assert self._storage is not None
        config = self._config
        log = self._metadata_log = SingleVoterLog.open(
            world=self._world,
            metadata_log_dir=self._metadata_directory,
            node_id=config.node_id,
            settings=MetadataLogSettings(
                segment_bytes=config.metadata_log_segment_bytes,
                segment_ms=config.metadata_log_segment_ms,
                retention_bytes=config.metadata_max_retention_bytes,
                retention_ms=config.metadata_max_retention_ms,
            ),
            directory_id=self._storage.directory_ids[self._metadata_directory],
        )
        log.on_failure = self._on_metadata_failure
        if log.cut_bytes:
            logger.warning("cut a torn tail of %d bytes off the metadata log", log.cut_bytes)
        controller = self._controller = Controller.open(
            world=self._world,
            log=log,
            config=config,
            cluster_id=self._storage.cluster_id,
            metadata_log_dir=self._metadata_directory,
        )
        # Nobody else can be this node, since we hold its directories: a session of the run before is over.
        controller.liveness.forget(config.node_id)
        return controller

    def _on_logs_open(self, opened: Deferred[None], started: Deferred[Broker]) -> None:
        if opened.error is not None:
            started.fail(_start_error(opened.error))
            return
        try:
            broker, session = self._assemble()
        except Exception as error:  # noqa: BLE001 - whatever it is, the start has failed with it
            started.fail(_start_error(error))
            return
        if self.on_locked is not None:
            self.on_locked()

        def on_registered(registered: Deferred[int]) -> None:
            try:
                registered.result()
                # Registering committed everything before it, the first records of a new cluster included.
                self._take_up_partitions(broker)
            except Exception as error:  # noqa: BLE001 - whatever it is, the start has failed with it
                started.fail(_start_error(error))
            else:
                session.unfence().when_done(on_unfenced)

        def on_unfenced(unfenced: Deferred[None]) -> None:
            if unfenced.error is not None:
                started.fail(_start_error(unfenced.error))
                return
            self._plan_liveness_check()
            started.resolve(broker)

        session.register().when_done(on_registered)

    def _assemble(self) -> tuple[Broker, BrokerSession]:
        assert self._storage is not None
        assert self._logs is not None
        controller = self._opened_controller()
        config = self._config
        replicas = ReplicaManager(node_id=config.node_id, config=config, world=self._world, logs=self._logs)
        broker = self._broker = Broker(
            config=config,
            world=self._world,
            node_id=config.node_id,
            cluster_id=self._storage.cluster_id,
            metadata=controller.publishers,
            logs=self._logs,
            replicas=replicas,
            controller=controller,
            supported_features=SUPPORTED_FEATURES,
        )
        broker.listeners = {listener.name: listener for listener in self._listeners}
        session = self._session = BrokerSession(
            config=config,
            world=self._world,
            cluster_id=broker.cluster_id,
            listeners=self._listeners,
            directories=[directory.directory_id for directory in self._logs.online_directories()],
            previous_epoch=self._logs.previous_broker_epoch,
            metadata=controller.publishers,
            controller=controller,
        )
        return broker, session

    def _take_up_partitions(self, broker: Broker) -> None:
        """Holds what is on disk against the metadata, and follows the metadata from here on."""
        image = broker.metadata.image
        settings = DynamicConfig(broker)
        settings.start(image)
        for topic_partition, topic_id in broker.logs.partitions():
            topic = image.topics.by_name.get(topic_partition.topic)
            partition = None if topic is None else topic.partitions.get(topic_partition.partition)
            is_ours = partition is not None and broker.node_id in partition.replicas
            if topic is None or not is_ours or (topic_id and topic_id != topic.topic_id):
                logger.warning("set aside the log of %s: the metadata knows nothing of it here", topic_partition)
                broker.logs.set_aside_stray(topic_partition)
        broker.replicas.start(image)
        broker.metadata.add(settings)
        broker.metadata.add(broker.replicas)

    def _plan_liveness_check(self) -> None:
        delay = self._config.broker_session_timeout_ms / 1000 / LIVENESS_CHECKS_PER_SESSION
        self._liveness_timer = self._world.scheduler.call_later(delay, self._check_liveness)

    def _check_liveness(self) -> None:
        assert self._controller is not None
        self._controller.fence_silent_brokers()
        self._plan_liveness_check()

    # -- failing and stopping --------------------------------------------------------------------------------------

    def _on_directory_failure(self, directory: LogDirectory, gone: list[TopicPartition]) -> None:
        logger.error(
            "the log directory %s is out of service, and with it %d partitions: %s",
            directory.path,
            len(gone),
            directory.error,
        )
        if self._session is not None:
            self._session.offline_directories.add(directory.directory_id)
        assert self._logs is not None
        if self._broker is not None and (
            not self._logs.online_directories() or directory.path == self._metadata_directory
        ):
            self._fatal(StartError(f"The log directory {directory.path} failed, and the node cannot go on without it."))

    def _on_metadata_failure(self, error: BaseException) -> None:
        self._fatal(StartError(f"The metadata log failed: {error}."))

    def _fatal(self, error: BaseException) -> None:
        if self.on_fatal is not None:
            self.on_fatal(error)

    def _has_successors(self) -> bool:
        """Whether there is another broker that could take over what this one leads."""
        assert self._broker is not None
        own_id = self._config.node_id
        brokers = self._broker.metadata.image.brokers
        return any(broker.active for broker_id, broker in brokers.items() if broker_id != own_id)

    def _close_logs(self) -> Deferred[None]:
        closed: Deferred[None] = Deferred()
        if self._logs is None:
            closed.resolve(None)
            return closed
        epoch = -1 if self._session is None else self._session.epoch

        def on_closed(outcome: Deferred[None]) -> None:
            if self._metadata_log is not None:
                self._metadata_log.close()
            if outcome.error is not None:
                closed.fail(outcome.error)
            else:
                closed.resolve(None)

        self._logs.close(broker_epoch=epoch).when_done(on_closed)
        return closed


# What may stand in the way of a start without being a defect; each says in its message what is wrong.
_START_FAILURES = (
    StartError,
    CorruptMetadataError,
    DirectoryRefused,
    KafkaError,
    MetadataLogDamagedError,
    MetadataLogFailedError,
    MetadataLogUnsupportedError,
    OSError,
    StorageNotFormattedError,
)


def _start_error(error: BaseException) -> BaseException:
    """The sentence for whoever started the node; anything unexpected stays what it is."""
    if isinstance(error, StartError) or not isinstance(error, _START_FAILURES):
        return error
    sentence = str(error)
    return StartError(sentence if sentence.endswith(".") else f"{sentence}.")


def _forward(target: Deferred[None]) -> Callable[[Deferred[None]], None]:
    def forward(source: Deferred[None]) -> None:
        if source.error is not None:
            target.fail(source.error)
        else:
            target.resolve(None)

    return forward
