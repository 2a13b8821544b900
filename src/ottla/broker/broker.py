"""The broker: one value that holds every machine of a node, handed to each request handler.

It owns nothing but the references: who starts and stops what, and in which order, is in `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.authorization import AllowAll, Authorizer
from ottla.broker.context import ListenerInfo
from ottla.broker.group_coordination import GroupCoordination
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.quotas.gate import Quotas
from ottla.broker.statistics import NodeStatistics
from ottla.broker.topic_answers import TopicAnswers
from ottla.broker.transaction_coordination import TransactionCoordination

if TYPE_CHECKING:
    from ottla.broker.dispatch import Dispatcher
    from ottla.coordinator.group.service import GroupCoordinator
    from ottla.coordinator.txn.service import TransactionCoordinator
    from ottla.metadata.controller import Controller, ControllerGateway
    from ottla.metadata.publishers import Publishers
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import World
    from ottla.quorum.raft_node import RaftNode
    from ottla.replica.manager import ReplicaManager
    from ottla.replica.transactional import TransactionalAppends
    from ottla.storage.manager import LogManager
    from ottla.wire.peers import Peers

__all__ = ["Broker"]


class Broker:
    """Where the machines meet."""

    __slots__ = (
        "_transactional_appends",
        "authorizer",
        "cluster_id",
        "config",
        "controller",
        "controller_dispatcher",
        "group_coordination",
        "kraft_version",
        "listeners",
        "local_controller",
        "logs",
        "may_be_replaced",
        "metadata",
        "node_id",
        "on_config_changed",
        "peers",
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
    ) -> None:
        self.config = config
        self.world = world
        self.node_id = node_id
        self.cluster_id = cluster_id
        # `metadata.image` is the newest committed image: take it once per request, it is replaced as a whole.
        self.metadata = metadata
        self.logs = logs
        self.replicas = replicas
        # The active controller, wherever it runs.
        self.controller = controller
        # The controller of this process, active or not, and its part in the quorum; None where there is none.
        self.local_controller = local_controller
        self.quorum = quorum
        # Answers what comes in an Envelope; set together with the controller's listener.
        self.controller_dispatcher: Dispatcher | None = None
        # Requests to other nodes; None where nobody else can be reached.
        self.peers = peers
        self.producer_ids = ProducerIds(controller, metadata, node_id)
        # Feature name -> lowest and highest level this software knows (KIP-584).
        self.supported_features = supported_features
        self.authorizer: Authorizer = authorizer if authorizer is not None else AllowAll()
        # What clients may use; follows the metadata.
        self.quota = Quotas(config, world.clock)
        self.statistics = NodeStatistics()
        # The level of that feature: it is in the log beside the metadata, for the quorum alone.
        self.kraft_version: Callable[[], int] = lambda: 0
        # Whether others may lead by now what we think that we lead: the controller has not been heard for so long.
        self.may_be_replaced: Callable[[], bool] = lambda: False
        self.group_coordination = GroupCoordination(self)
        self.transaction_coordination = TransactionCoordination(self)
        # Called with the new configuration when dynamic settings have changed it.
        self.on_config_changed: list[Callable[[BrokerConfig], object]] = []
        # Topics that the controller was asked to create because a client wants them, and that are not there yet.
        self.topics_in_creation: set[str] = set()
        # What clients are told of large topics.
        self.topic_answers = TopicAnswers()
        self._transactional_appends: TransactionalAppends | None = None
        # By listener name; filled in when the sockets are bound.
        self.listeners: dict[str, ListenerInfo] = {}

    @property
    def groups(self) -> GroupCoordinator:
        """Consumer groups and their offsets, as far as this broker leads their topic; made when first asked for."""
        return self.group_coordination.coordinator

    @property
    def transactions(self) -> TransactionCoordinator:
        """Transactional producers, as far as this broker leads the topic of their states; made when first asked for."""
        return self.transaction_coordination.coordinator

    @property
    def transactional_appends(self) -> TransactionalAppends:
        """Batches of transactions, which their coordinators have to confirm; made with the first of them."""
        if self._transactional_appends is None:
            from ottla.broker.transaction_verifier import CoordinatorQuestions
            from ottla.replica.transactional import TransactionalAppends

            self._transactional_appends = TransactionalAppends(CoordinatorQuestions(self), self.world.workers)
        return self._transactional_appends
