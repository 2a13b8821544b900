"""A scenario of administrative requests to a fresh broker, one by one, and its answers.

The same scenario runs on Apache Kafka (`tests/data/make_administration_answers.py` keeps its answers) and on Ottla.
Values that differ from run to run are normalised: ids of topics become their names, the node's own id becomes "node",
messages become "said", lists without an order are sorted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ottla.model.ids import Uuid
from ottla.wire.message import Message, Structure
from ottla.wire.messages import create_partitions as cp
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages import describe_topic_partitions as dtp
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["SETTINGS", "play"]

SETTINGS: dict[str, str] = {}

STRANGER = Uuid(b"0123456789abcdef")
NODE = -77
Said = tuple[str, Message, int]

# Fields whose values each broker may choose.
_LEFT_OUT = frozenset(
    ("throttle_time_ms", "port", "host", "cluster_id", "high_watermark", "log_end_offset", "last_fetch_timestamp")
) | {"last_caught_up_timestamp", "leader_epoch", "listeners"}
_NODES = frozenset(("node_id", "broker_id", "leader_id", "controller_id", "replica_id", "replica_nodes", "isr_nodes"))


def play(bootstrap: str) -> dict[str, Any]:
    """Sends all requests to a fresh broker; returns the answers by label, as plain values."""
    player = _Player(bootstrap)
    try:
        player.say_all(_creations(player.node_id))
        player.say_all(_partitions())
        player.wait_for("auto")
        player.learn_ids("ok 7", "ok 2")
        player.say_all(_metadata(player.ids))
        player.say_all(_cluster())
        player.say_all(_listings())
        player.say_all(_features())
        player.say_all(_deletions(player.ids))
    finally:
        player.client.close()
    return player.answers


class _Player:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = RawClient(bootstrap)
        self.answers: dict[str, Any] = {}
        self.ids: dict[str, Uuid] = {}
        self._names: dict[Uuid, str] = {}
        self.node_id = self.client.call(MetadataRequest(topics=[]), 12).brokers[0].node_id

    def say_all(self, requests: Iterator[Said]) -> None:
        for label, request, version in requests:
            label = f"{label}, version {version}"
            assert label not in self.answers, f"said twice: {label}"
            try:
                self.answers[label] = self._plain(self.client.call(request, version), "")
            except ConnectionClosed:
                self.answers[label] = "closed"
                self.client = RawClient(self.bootstrap)

    def wait_for(self, topic: str) -> None:
        """Creates a topic with a metadata request and waits until it exists: brokers create it asynchronously."""
        for _ in range(600):
            metadata = self.client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics[0]
            if metadata.error_code == 0:
                return
            time.sleep(0.05)
        raise AssertionError(f"{topic} was not created")

    def learn_ids(self, *labels: str) -> None:
        topics = [MetadataRequestTopic(name=label.replace(" ", "-")) for label in labels]
        for topic in self.client.call(MetadataRequest(topics=topics), 12).topics:
            self.ids[topic.name] = topic.topic_id
            self._names[topic.topic_id] = topic.name

    def _plain(self, value: Any, name: str) -> Any:
        if isinstance(value, Structure):
            return {slot: self._plain(getattr(value, slot), slot) for slot in value.__slots__ if slot not in _LEFT_OUT}
        if isinstance(value, Uuid):
            return self._names.get(value, bool(value))
        if name == "error_message":
            return "said" if value else value
        if name in _NODES and not isinstance(value, list):
            return "node" if value == self.node_id else value
        if not isinstance(value, list):
            return value
        if name in ("configs",):
            return {config.name: [config.value, config.config_source, config.read_only] for config in value}
        plain = [self._plain(element, name) for element in value]
        return sorted(plain, key=repr) if plain and isinstance(plain[0], dict) and "name" in plain[0] else plain


def _topic(name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> ct.CreatableTopic:
    return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)


def _create(*topics: ct.CreatableTopic, validate_only: bool = False) -> ct.CreateTopicsRequest:
    return ct.CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def _creations(node_id: int) -> Iterator[Said]:
    retention = ct.CreatableTopicConfig(name="retention.ms", value="1000")
    for version in range(2, 8):
        yield "create", _create(_topic(f"ok-{version}", 3, configs=[retention])), version
    yield "create with defaults", _create(_topic("defaults", -1, -1)), 7
    yield "create what exists", _create(_topic("ok-7")), 7
    yield "create to validate", _create(_topic("never", 2), validate_only=True), 7
    yield "create nothing", _create(), 7
    for name in ("", ".", "..", "a/b", "ä", "a b", "x" * 250, "x" * 249, "ok_7", "__cluster_metadata"):
        yield f"create the name {name[:12]!r} of {len(name)}", _create(_topic(name)), 7
    yield "create with a dot", _create(_topic("dot.ted")), 7
    yield "create what collides", _create(_topic("dot_ted")), 7
    yield "create one twice", _create(_topic("twice"), _topic("once"), _topic("twice")), 7
    for partitions, factor in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (10_001, 1)):
        yield f"create {partitions} x {factor}", _create(_topic("bad", partitions, factor)), 7
    for name, value in (
        ("retention.ms", "x"),
        ("retention.ms", ""),
        ("retention.ms", None),
        ("no.such.key", "1"),
        ("cleanup.policy", "burn"),
        ("min.insync.replicas", "0"),
        ("compression.type", "rar"),
        ("segment.bytes", "1"),
        ("max.message.bytes", "-1"),
        ("unclean.leader.election.enable", "maybe"),
    ):
        config = ct.CreatableTopicConfig(name=name, value=value)
        yield f"create with {name}={value}", _create(_topic("bad", configs=[config])), 7
    for number, assignment in enumerate(
        (
            [(0, [])],
            [(0, [NODE, NODE])],
            [(0, [9])],
            [(1, [NODE])],
            [(0, [NODE]), (0, [NODE])],
            [(0, [NODE]), (1, [NODE])],
            [(0, [NODE]), (2, [NODE])],
            [(-1, [NODE])],
        )
    ):
        assignments = [
            ct.CreatableReplicaAssignment(
                partition_index=index, broker_ids=[node_id if broker == NODE else broker for broker in brokers]
            )
            for index, brokers in assignment
        ]
        yield f"assign {assignment}", _create(_topic(f"assigned-{number}", -1, -1, assignments=assignments)), 7
    assignments = [ct.CreatableReplicaAssignment(partition_index=0, broker_ids=[node_id])]
    yield "assign and count", _create(_topic("counted", 1, -1, assignments=assignments)), 7


def _partitions() -> Iterator[Said]:
    def more_partitions(
        *topics: tuple[str, int, list[int] | None], validate_only: bool = False
    ) -> cp.CreatePartitionsRequest:
        return cp.CreatePartitionsRequest(
            topics=[
                cp.CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=None if brokers is None else [cp.CreatePartitionsAssignment(broker_ids=brokers)],
                )
                for name, count, brokers in topics
            ],
            timeout_ms=10_000,
            validate_only=validate_only,
        )

    for version in range(4):
        yield "more partitions", more_partitions(("ok-2", 4 + version, None)), version
    yield "more to validate", more_partitions(("ok-5", 9, None), validate_only=True), 3
    yield "more of nothing", more_partitions(("nowhere", 5, None)), 3
    yield "as many", more_partitions(("ok-5", 3, None)), 3
    yield "fewer", more_partitions(("ok-5", 2, None)), 3
    yield "fewer than none", more_partitions(("ok-5", -1, None)), 3
    yield "one assignment for two", more_partitions(("ok-5", 5, [9])), 3
    yield "an unknown broker", more_partitions(("ok-5", 4, [9])), 3
    yield "no broker", more_partitions(("ok-5", 4, [])), 3
    yield "one topic twice", more_partitions(("ok-5", 9, None), ("ok-5", 9, None)), 3


def _metadata(ids: dict[str, Uuid]) -> Iterator[Said]:
    def metadata_request(*names: str, create: bool = True) -> MetadataRequest:
        topics = [MetadataRequestTopic(name=name) for name in names]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=create)

    for version in range(14):
        yield "metadata", metadata_request("ok-7", "ok-5"), version
        yield "metadata of an empty list", metadata_request(), version
        if version >= 4:
            yield "metadata of what is missing", metadata_request("nowhere", create=False), version
        if version >= 1:
            request = MetadataRequest(topics=None, include_topic_authorized_operations=version >= 8)
            request.include_cluster_authorized_operations = 8 <= version <= 10
            yield "metadata of everything", request, version
    for name in ("", "..", "a/b", "ä", "x" * 250):
        yield f"metadata of the name {name[:12]!r} of {len(name)}", metadata_request(name), 12
    yield "metadata that creates", metadata_request("created"), 12
    yield "metadata that collides", metadata_request("dot_ted"), 12
    yield "metadata of one twice", metadata_request("ok-7", "ok-7"), 12
    known, other = ids["ok-7"], ids["ok-2"]
    for label, topics in (
        ("a stranger", [(None, STRANGER)]),
        ("an id", [(None, known)]),
        ("two ids", [(None, known), (None, other)]),
        ("an id with another's name", [("ok-2", known)]),
        ("an id and a name", [(None, known), ("ok-2", Uuid.ZERO)]),
    ):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=id_) for name, id_ in topics])
        yield f"metadata by {label}", request, 13
    yield "metadata by id", MetadataRequest(topics=[MetadataRequestTopic(name="ok-7", topic_id=known)]), 11


def _cluster() -> Iterator[Said]:
    for version in range(3):
        yield "cluster", DescribeClusterRequest(include_cluster_authorized_operations=True), version
    yield "cluster of controllers", DescribeClusterRequest(endpoint_type=2), 1
    yield "cluster of type 7", DescribeClusterRequest(endpoint_type=7), 1
    yield "cluster with the fenced", DescribeClusterRequest(include_fenced_brokers=True), 2
    for topic, partition in (("__cluster_metadata", 0), ("__cluster_metadata", 1), ("ok-7", 0)):
        partitions = [RequestPartitionData(partition_index=partition)]
        request = DescribeQuorumRequest(topics=[RequestTopicData(topic_name=topic, partitions=partitions)])
        for version in range(3):
            yield f"quorum of {topic}-{partition}", request, version
    yield "quorum of nothing", DescribeQuorumRequest(topics=[]), 2
    for kind in (0, 1, 7):
        wanted = [TopicPartitions(topic="ok-7", partitions=[0, 9]), TopicPartitions(topic="nowhere", partitions=[0])]
        yield f"election of type {kind}", ElectLeadersRequest(election_type=kind, topic_partitions=wanted), 2
    yield "a transactional id that is empty", InitProducerIdRequest(transactional_id=""), 4


def _listings() -> Iterator[Said]:
    def listed(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Message:
        return dtp.DescribeTopicPartitionsRequest(
            topics=[dtp.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else dtp.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )

    yield "list everything", listed(), 0
    yield "list", listed("ok-7", "nowhere", "a/b"), 0
    for limit in (0, 1, 2, 7, 8):
        yield f"list {limit}", listed("ok-7", "ok-2", limit=limit), 0
    yield "list from the middle", listed("ok-7", "ok-2", limit=2, cursor=("ok-2", 3)), 0
    yield "list from beyond", listed("ok-7", "ok-2", limit=2, cursor=("ok-2", 30)), 0
    yield "list from elsewhere", listed("ok-7", cursor=("zebra", 3)), 0
    yield "list from below", listed("ok-7", cursor=("ok-7", -1)), 0


def _features() -> Iterator[Said]:
    for version in range(3):
        for name, level, kind in (
            ("share.version", 1, 1),
            ("share.version", 7, 1),
            ("share.version", -1, 1),
            ("share.version", 0, 1),
            ("share.version", 1, 2),
            ("nowhere", 1, 1),
            ("metadata.version", 30, 1),
            ("metadata.version", 29, 1),
            ("metadata.version", 99, 1),
        ):
            update = FeatureUpdateKey(feature=name, max_version_level=level)
            if version > 0:
                update.upgrade_type = kind
            request = UpdateFeaturesRequest(feature_updates=[update], validate_only=version > 0)
            yield f"feature {name} to {level} as {kind}", request, version


def _deletions(ids: dict[str, Uuid]) -> Iterator[Said]:
    def delete(*topics: tuple[str | None, Uuid]) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=id_) for name, id_ in topics], timeout_ms=10_000
        )

    yield "delete", DeleteTopicsRequest(topic_names=["ok-3", "nowhere", "a/b"], timeout_ms=10_000), 1
    yield "delete", DeleteTopicsRequest(topic_names=["ok-4", "nowhere"], timeout_ms=10_000), 4
    yield "delete", DeleteTopicsRequest(topic_names=["ok-5", "ok-6", "ok-5"], timeout_ms=10_000), 5
    yield "delete in two ways", delete((None, ids["ok-7"]), ("ok-7", Uuid.ZERO), ("defaults", ids["ok-7"])), 6
    yield "delete by id", delete((None, ids["ok-7"]), (None, STRANGER), ("ok-2", Uuid.ZERO)), 6
    yield "delete neither", delete((None, Uuid.ZERO)), 6
    yield "delete the metadata", delete(("__cluster_metadata", Uuid.ZERO)), 6
