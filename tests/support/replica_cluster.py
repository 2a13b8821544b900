"""Data paths of several brokers in a process: real logs and replication; the test controls network and controller.

Requests between brokers are encoded and decoded as on the wire and arrive in the scheduler's next turn. A test may cut
links, hold back metadata from a broker, and crash brokers, which lose everything that is not in a file. In-sync sets
are decided by the real controller's decision function.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from ottla.broker.apis import produce
from ottla.broker.context import ConnectionContext, RequestContext
from ottla.metadata.controller.decision import DecisionContext
from ottla.metadata.controller.liveness import Liveness
from ottla.metadata.controller.partitions import (
    Located,
    decide_alter_partition,
    without_replica,
)
from ottla.metadata.controller.sweeps import changes_of_leaving, changes_of_returning
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.replica.directory_reporter import LOST
from ottla.replica.manager import ReplicaManager
from ottla.replica.partition import Partition
from ottla.storage.errors import StorageError
from ottla.storage.log import PartitionLog
from ottla.storage.manager import LogManager
from ottla.wire.codec import decode, encode
from ottla.wire.message import Request
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.peers import Endpoint, PeerUnreachable
from tests.support.data_path import LISTENER, batch, values
from tests.support.replica_network import Network, UnderWay
from tests.support.virtual_world import VirtualWorld

__all__ = ["ReplicaCluster", "ReplicaNode", "listed"]

FENCE, UNFENCE = 1, -1
CONTROLLER = 0


class ReplicaNode:
    """A broker. A test may change `port` to restart it at another address."""

    def __init__(self, cluster: ReplicaCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.port = 9000 + node_id
        self.epoch = -1
        self.runs = False
        # Metadata that a test holds back.
        self.holds_metadata = False
        self.held: list[tuple[MetadataDelta, MetadataImage]] = []

    @property
    def directory(self) -> str:
        return f"{self.cluster.directory}/node-{self.node_id}"

    def start(self, *, fenced: bool = False, **properties: str) -> None:
        cluster = self.cluster
        self.held.clear()
        self.epoch = cluster.register(self, fenced=fenced)
        self.config = BrokerConfig.embedded({"log.dirs": self.directory, **cluster.properties, **properties})
        os.makedirs(self.directory, exist_ok=True)
        world = cluster.virtual.world
        self.logs = LogManager(world, self.config, cluster_id="test", node_id=self.node_id)
        self._wait(self.logs.open(cluster.image.configs.of_topic))
        self.replicas = ReplicaManager(node_id=self.node_id, config=self.config, world=world, logs=self.logs)
        self.logs.on_directory_failure.append(lambda _, lost: self.replicas.on_directory_failed(lost))
        self.replicas.connect(
            peers=Network(cluster, self), controller=_Controller(cluster, self), broker_epoch=lambda: self.epoch
        )
        self.broker: Any = SimpleNamespace(
            config=self.config, replicas=self.replicas, logs=self.logs, node_id=self.node_id
        )
        self.replicas.start(cluster.image)
        self.runs = True

    def stop(self) -> None:
        self.runs = False
        self.replicas.close()
        self._wait(self.logs.close())
        self.cluster.drop_links(self)

    def crash(self) -> None:
        """Stops all writes; the content of files stays."""
        self.runs = False
        self.replicas.close()
        for partition in list(self.replicas.partitions()):
            partition.log.files.take_offline(StorageError("crashed"))
        self.logs.maintenance.stop()
        self.logs.cleaner.stop()
        self.logs._release_locks()
        self.cluster.drop_links(self)

    def _wait(self, done: Deferred[None]) -> None:
        while not done.done:
            self.cluster.virtual.workers.run_all()
            self.cluster.virtual.scheduler.run()
        done.result()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if not self.runs:
            return
        self.held.append((delta, image))
        delay_ms = self.cluster.delay_ms()
        if delay_ms:
            self.cluster.virtual.scheduler.call_later(delay_ms / 1000, self._take_metadata)
        else:
            self._take_metadata()

    def _take_metadata(self) -> None:
        """Applies all metadata that has arrived, in order; metadata that arrives later is applied after it."""
        while self.held and self.runs and not self.holds_metadata:
            self.replicas.publish(*self.held.pop(0))

    def release_metadata(self) -> None:
        self.holds_metadata = False
        self._take_metadata()

    def partition(self, topic: str = "t", index: int = 0) -> Partition:
        return self.replicas.find(topic, index)

    def log(self, topic: str = "t", index: int = 0) -> PartitionLog:
        log = self.logs.get(TopicPartition(topic, index))
        assert log is not None
        return log

    def write(self, *texts: str, epoch: int, topic: str = "t") -> None:
        """Appends a batch to this broker's log only, as a former leader would have."""
        self.log(topic).append_built(bytearray(batch(*texts)), leader_epoch=epoch, now_ms=0)

    def values(self, topic: str = "t", index: int = 0) -> list[str]:
        return values(self.bytes(topic, index))

    def bytes(self, topic: str = "t", index: int = 0) -> bytes:
        """Everything in the log's files."""
        return b"".join(segment.file.read(0, segment.size) for segment in self.log(topic, index).segments)

    def call(self, handler: Any, request: Any, version: int) -> Any:
        return handler.handle(request, self.context(request.API_KEY, version), self.broker)

    def context(self, api_key: int, version: int) -> RequestContext:
        connection = ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=50_000)
        return RequestContext(api_key, version, 1, "test", connection, self.cluster.virtual.clock.now_ms())

    def produce(self, *texts: str, topic: str = "t", index: int = 0, acks: int = 1, timeout_ms: int = 30_000) -> Any:
        """The answer for the partition, or its Deferred."""
        data = PartitionProduceData(index=index, records=batch(*texts))
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        answer = self.call(produce, request, 12)
        return answer.then(_of_partition) if isinstance(answer, Deferred) else _of_partition(answer)


class ReplicaCluster:
    """Node n is in rack-n."""

    def __init__(self, directory: str, *, nodes: Iterable[int] = (1, 2, 3), **properties: str) -> None:
        self.directory = directory
        self.properties = {key.replace("_", "."): value for key, value in properties.items()}
        self.virtual = VirtualWorld(immediate_workers=True)
        self.image = MetadataImage(cluster_id="test")
        self._offset = 0
        # The delay of a message, and of a metadata change to a node.
        self.delay_ms: Callable[[], int] = lambda: 0
        # Directed pairs of nodes that cannot reach each other; messages under way are lost.
        self.cut: set[tuple[int, int]] = set()
        self.requests: list[tuple[int, int, Any]] = []
        self.alter_requests: list[AlterPartitionRequest] = []
        # Called with every answer of the controller; may change it, or raise the broker's error instead.
        self.on_alter_answer: Callable[[AlterPartitionResponse], AlterPartitionResponse] = lambda response: response
        # Called with the bytes of every response between brokers.
        self.on_response_bytes: Callable[[bytearray], bytearray] = lambda data: data
        # True if brokers may report lost replicas; otherwise the controller does not support log directories.
        self.accepts_lost_replicas = False
        self.under_way: list[UnderWay] = []
        self.nodes = {node_id: ReplicaNode(self, node_id) for node_id in nodes}
        for node in self.nodes.values():
            node.start()

    def __getitem__(self, node_id: int) -> ReplicaNode:
        return self.nodes[node_id]

    def end(self) -> None:
        for node in self.nodes.values():
            if node.runs:
                node.stop()

    def run(self, ms: int = 0) -> None:
        self.virtual.scheduler.advance(ms)
        for node in self.nodes.values():
            if node.runs:
                node.replicas.invariants()

    # Metadata.

    def commit(self, *records: Any) -> None:
        if not records:
            return
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self._offset += len(records)
        self.image = delta.apply(offset=self._offset, epoch=1, timestamp_ms=self.virtual.clock.ms)
        for node in self.nodes.values():
            node.publish(delta, self.image)

    def register(self, node: ReplicaNode, *, fenced: bool = False) -> int:
        epoch = self._offset + 1
        endpoint = r.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=node.port)
        self.commit(
            r.RegisterBrokerRecord(
                broker_id=node.node_id,
                broker_epoch=epoch,
                end_points=[endpoint],
                fenced=fenced,
                rack=f"rack-{node.node_id}",
            )
        )
        return epoch

    def fence(self, node_id: int, fenced: int = FENCE) -> None:
        epoch = self.image.brokers[node_id].broker_epoch
        self.commit(r.BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=fenced))

    def create_topic(
        self,
        name: str = "t",
        partitions: int = 1,
        *,
        replicas: Sequence[int] = (1, 2),
        isr: Sequence[int] | None = None,
        leader: int | None = None,
        **configs: str,
    ) -> Uuid:
        topic_id = Uuid.random(self.virtual.random)
        self.commit(
            r.TopicRecord(name=name, topic_id=topic_id),
            *(
                r.ConfigRecord(resource_type=2, resource_name=name, name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
            *(
                r.PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=list(replicas),
                    isr=list(replicas if isr is None else isr),
                    leader=replicas[0] if leader is None else leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[Uuid.ZERO] * len(replicas),
                )
                for index in range(partitions)
            ),
        )
        return topic_id

    def elect(self, leader: int, *, isr: Sequence[int] | None = None, topic: str = "t", index: int = 0) -> None:
        topic_id = self.image.topics.by_name[topic].topic_id
        self.commit(
            r.PartitionChangeRecord(
                partition_id=index, topic_id=topic_id, leader=leader, isr=None if isr is None else list(isr)
            )
        )

    def truth(self, topic: str = "t", index: int = 0) -> PartitionImage:
        partition = self.image.topics.partition(topic, index)
        assert partition is not None
        return partition

    def lose_broker(self, node_id: int) -> None:
        """The broker's session has expired: it is fenced, and other brokers lead its partitions."""
        records, _ = changes_of_leaving(self._context(), node_id)
        epoch = self.image.brokers[node_id].broker_epoch
        self.commit(*records, r.BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=FENCE))

    def regain_broker(self, node_id: int) -> None:
        """The broker has caught up with the metadata: it is unfenced, and may lead partitions without a leader."""
        records, _ = changes_of_returning(self._context(), node_id)
        epoch = self.image.brokers[node_id].broker_epoch
        self.commit(*records, r.BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=UNFENCE))

    def note_unclean_stop(self, node_id: int) -> None:
        """The broker registers after a crash: its replicas cannot be relied upon (KIP-966)."""
        self.commit(*changes_of_leaving(self._context(), node_id, stopped_uncleanly=True).records)

    def _context(self) -> DecisionContext:
        return DecisionContext(
            image=self.image,
            config=next(iter(self.nodes.values())).config,
            now_ms=self.virtual.clock.ms,
            random=self.virtual.random,
            next_offset=self._offset + 1,
            liveness=Liveness(),
        )

    def decide(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        decision = decide_alter_partition(request, self._context())
        if decision.records:
            self.commit(*decision.records)
        return decision.response

    def assign(self, node: ReplicaNode, request: AssignReplicasToDirsRequest) -> Deferred[AssignReplicasToDirsResponse]:
        """Removes lost replicas from the in-sync sets and from leadership. Directories are not stored."""
        response = AssignReplicasToDirsResponse()
        for directory in request.directories:
            answer = ResponseDirectoryData(id=directory.id)
            response.directories.append(answer)
            for wanted in directory.topics:
                topic = self.image.topics.by_id[wanted.topic_id]
                indexes = [partition.partition_index for partition in wanted.partitions]
                answer.topics.append(
                    ResponseTopicData(
                        topic_id=wanted.topic_id,
                        partitions=[ResponsePartitionData(partition_index=index) for index in indexes],
                    )
                )
                for index in indexes if directory.id == LOST else ():
                    located = Located(topic, index, topic.partitions[index])
                    record = without_replica(located, node.node_id, self._context(), has_begun_anew=False)
                    if record is not None:
                        self.later(self.commit, record)
        answered: Deferred[AssignReplicasToDirsResponse] = Deferred()
        self.later(answered.resolve, response)
        return answered

    # The network.

    def later(self, callback: Callable[..., object], *arguments: Any) -> None:
        delay_ms = self.delay_ms()
        if delay_ms:
            self.virtual.scheduler.call_later(delay_ms / 1000, callback, *arguments)
        else:
            self.virtual.scheduler.call_soon(callback, *arguments)

    def cut_off(self, node_id: int) -> None:
        """Cuts all links from and to this node; its metadata has to be held back separately."""
        for other in (*self.nodes, CONTROLLER):
            self.cut |= {(node_id, other), (other, node_id)}
        self.drop_links(self.nodes[node_id])

    def reconnect(self) -> None:
        self.cut.clear()

    def drop_links(self, node: ReplicaNode) -> None:
        for under_way in list(self.under_way):
            if node.node_id in (under_way.source, under_way.target):
                under_way.fail("the connection was lost")

    def node_at(self, endpoint: Endpoint) -> ReplicaNode | None:
        return next((node for node in self.nodes.values() if node.runs and node.port == endpoint.port), None)


class _Controller:
    def __init__(self, cluster: ReplicaCluster, source: ReplicaNode) -> None:
        self._cluster = cluster
        self._source = source

    def ask(self, request: Request[Any]) -> Deferred[Any]:
        if not isinstance(request, AlterPartitionRequest):
            # Every node has a single directory, so directories are not reported.
            if isinstance(request, AssignReplicasToDirsRequest) and self._cluster.accepts_lost_replicas:
                return self._cluster.assign(self._source, request)
            return Deferred.failed(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        answer: Deferred[AlterPartitionResponse] = Deferred()
        received, _ = decode(AlterPartitionRequest, memoryview(bytearray(encode(request, 3))), 3)

        def decide() -> None:
            if (self._source.node_id, CONTROLLER) in self._cluster.cut or not self._source.runs:
                answer.fail(PeerUnreachable("the controller cannot be reached"))
                return
            self._cluster.alter_requests.append(received)
            try:
                response = self._cluster.on_alter_answer(self._cluster.decide(received))
            except (KafkaError, PeerUnreachable) as error:
                answer.fail(error)
            else:
                self._cluster.later(respond, response)

        def respond(response: AlterPartitionResponse) -> None:
            if (self._source.node_id, CONTROLLER) in self._cluster.cut:
                answer.fail(PeerUnreachable("the answer was lost"))
            else:
                answer.resolve(response)

        self._cluster.later(decide)
        return answer


def _of_partition(response: ProduceResponse) -> PartitionProduceResponse:
    return response.responses[0].partition_responses[0]


def listed(request: FetchRequest) -> dict[int, int]:
    """The partitions of a fetch request with their offsets."""
    return {wanted.partition: wanted.fetch_offset for topic in request.topics for wanted in topic.partitions}
