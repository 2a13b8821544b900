"""The broker: one object that holds every machine of a node. Every request handler gets it.

It only holds references. `lifecycle` starts and stops the machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.authorization import AllowAll, Authorizer
from ottla.broker.context import ListenerInfo, PrincipalBuilder
from ottla.broker.group_coordination import GroupCoordination
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.quotas.gate import Quotas
from ottla.broker.statistics import NodeStatistics
from ottla.broker.topic_answers import TopicAnswers
from ottla.broker.transaction_coordination import TransactionCoordination
from ottla.model.slices import Admission

if TYPE_CHECKING:
    from ottla.broker.audit.trail import AuditTrail
    from ottla.broker.client_metrics import ClientMetricsReceiver
    from ottla.broker.dispatch import Dispatcher
    from ottla.coordinator.group.service import GroupCoordinator
    from ottla.coordinator.txn.service import TransactionCoordinator
    from ottla.metadata.controller import Controller, ControllerGateway
    from ottla.metadata.publishers import Publishers
    from ottla.model.config import BrokerConfig
    from ottla.model.deferred import Deferred
    from ottla.model.ports import World
    from ottla.quorum.raft_node import RaftNode
    from ottla.replica.manager import ReplicaManager
    from ottla.replica.transactional import TransactionalAppends
    from ottla.storage.manager import LogManager
    from ottla.wire.peers import Peers

__all__ = ["Broker"]

LARGE_REQUESTS_MAX = 4


class Broker:
    """References to all machines of a node."""

    __slots__ = (
        "_client_metrics",
        "_transactional_appends",
        "audit",
        "authorizer",
        "cluster_id",
        "config",
        "config_checks",
        "controller",
        "controller_dispatcher",
        "group_coordination",
        "is_stopping",
        "kraft_version",
        "large_requests",
        "listeners",
        "local_controller",
        "logs",
        "may_be_replaced",
        "metadata",
        "node_id",
        "on_config_changed",
        "peers",
        "principal_builder",
        "producer_ids",
        "quorum",
        "quota",
        "replicas",
        "statistics",
        "supported_features",
        "topic_answers",
        "topics_in_creation",
        "transaction_coordination",
        "world",
    )

    def __init__(
        self,
        *,
        config: BrokerConfig,
        world: World,
        node_id: int,
        cluster_id: str,
        metadata: Publishers,
        logs: LogManager,
        replicas: ReplicaManager,
        controller: ControllerGateway,
        supported_features: Mapping[str, tuple[int, int]],
        peers: Peers | None = None,
        local_controller: Controller | None = None,
        quorum: RaftNode | None = None,
        authorizer: Authorizer | None = None,
        principal_builder: PrincipalBuilder | None = None,
    ) -> None:
        self.config = config
        self.world = world
        self.node_id = node_id
        self.cluster_id = cluster_id
        # `metadata.image` is the newest committed image. Read it once per request, because it is replaced as a whole.
        self.metadata = metadata
        self.logs = logs
        self.replicas = replicas
        # The active controller, in this process or on another node.
        self.controller = controller
        # The controller of this process, active or not, and its quorum node; None without the controller role.
        self.local_controller, self.quorum = local_controller, quorum
        # Answers requests in an Envelope. Set together with the controller's listener.
        self.controller_dispatcher: Dispatcher | None = None
        # Sends requests to other nodes; None if the node has no network, as in tests.
        self.peers = peers
        self.producer_ids = ProducerIds(controller, metadata, node_id)
        # The lowest and highest supported level of every feature, by its name (KIP-584).
        self.supported_features = supported_features
        self.authorizer: Authorizer = authorizer or AllowAll()
        self.principal_builder = principal_builder
        self.audit: AuditTrail | None = None
        self.quota = Quotas(config, world.clock)
        self.statistics = NodeStatistics()
        # The level of the feature `kraft.version`. It is kept in the log of the quorum, not in the metadata image.
        self.kraft_version: Callable[[], int] = lambda: 0
        # True if other brokers may lead this broker's partitions, because the controller has been silent for too long.
        self.may_be_replaced: Callable[[], bool] = lambda: False
        self.is_stopping = False  # True when the connections are closed, and the logs are flushed and closed.
        self.group_coordination = GroupCoordination(self)
        self.transaction_coordination = TransactionCoordination(self)
        # Called with a new configuration: before a dynamic change is written, to fail with KafkaError, and after it.
        self.config_checks: list[Callable[[BrokerConfig], Deferred[None]]] = []
        self.on_config_changed: list[Callable[[BrokerConfig], object]] = []
        self.topics_in_creation: set[str] = set()
        self.topic_answers = TopicAnswers()
        self._transactional_appends: TransactionalAppends | None = None
        self._client_metrics: ClientMetricsReceiver | None = None
        # Admits large requests to be decoded and handled (`sliced_requests`).
        self.large_requests = Admission(LARGE_REQUESTS_MAX)
        # The listeners by name; set when their sockets are bound.
        self.listeners: dict[str, ListenerInfo] = {}

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of consumer groups. It is created on first use."""
        return self.group_coordination.coordinator

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions. It is created on first use."""
        return self.transaction_coordination.coordinator

    @property
    def client_metrics(self) -> ClientMetricsReceiver:
        """Receives the metrics that clients push (KIP-714). Created on first use."""
        if self._client_metrics is None:
            from ottla.broker.client_metrics import ClientMetricsReceiver

            self._client_metrics = ClientMetricsReceiver(self.world.random, self.config.telemetry_max_bytes)
        return self._client_metrics

    @property
    def transactional_appends(self) -> TransactionalAppends:
        """Appends transactional batches after their coordinator has verified them. Created on first use."""
        if self._transactional_appends is None:
            from ottla.broker.transaction_verifier import CoordinatorQuestions
            from ottla.replica.transactional import TransactionalAppends

            self._transactional_appends = TransactionalAppends(CoordinatorQuestions(self), self.replicas.validations)
        return self._transactional_appends
