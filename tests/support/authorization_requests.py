"""Requests of every API that authorizes, for resources that a client may have rights to and resources that it has not.

`topic` and `other` exist, `missing` and `absent` do not; rights are given for `topic` and `missing`. In the same way
rights may be given for `group`, `modern` and `tx`, and never for `rival` and `rival-tx`. Successful requests change
nothing that a later question depends on, except those that delete topics.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ottla.model.ids import Uuid
from ottla.wire.api import API_SPECS
from ottla.wire.message import Message

__all__ = ["ABSENT_ID", "Question", "build", "questions"]

ABSENT_ID = Uuid(b"an id of nothing")
TOPICS = ("topic", "missing", "other", "absent")
GROUPS = ("group", "modern", "rival", "nobody")
_BY_NAME = {spec.name: spec.request_class for spec in API_SPECS.values()}
_LATEST = 99
_WITHOUT_CLUSTER_ACTION = ("nothing", "everything but CLUSTER_ACTION on CLUSTER", "ALTER on CLUSTER")

Values = Mapping[str, Any]

_ALSO_AT_CONTROLLERS = frozenset(
    {
        "AddRaftVoter",
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DescribeAcls",
        "DescribeConfigs",
        "DescribeQuorum",
        "ElectLeaders",
        "IncrementalAlterConfigs",
        "ListPartitionReassignments",
        "RemoveRaftVoter",
        "UnregisterBroker",
        "UpdateFeatures",
    }
)


class Question(NamedTuple):
    label: str
    api: str
    first: int
    last: int
    values: Values
    at_controller: bool = False
    # True if the topics have to be created again afterwards.
    changes_topics: bool = False
    # The sets of ACLs for this question; None for all sets.
    only: tuple[str, ...] | None = None

    def request(self) -> Message:
        message: Message = build(_BY_NAME[self.api], self.values)
        return message


def build(cls: Any, values: Values) -> Any:
    """A message from plain values: a structure is a dictionary."""
    kinds = {field[0]: str(field[1]) for field in cls.FIELDS}
    return cls(**{name: _value(cls, kinds[name], value) for name, value in values.items()})


def _value(cls: Any, kind: str, value: Any) -> Any:
    inner = getattr(sys.modules[cls.__module__], kind.strip("[]"), None)
    if not isinstance(inner, type) or value is None:
        return value
    return [build(inner, fields) for fields in value] if kind.startswith("[") else build(inner, value)


def questions(ids: Mapping[str, Uuid], records: bytes, transactional: bytes) -> Iterator[Question]:
    by_id = [*(ids[name] for name in ("topic", "other")), ABSENT_ID]
    yield from _data(by_id, records, transactional)
    yield from _offsets(by_id)
    yield from _groups()
    yield from _transactions()
    yield from _topics(by_id)
    yield from _settings()
    yield from _cluster()
    yield from _between_nodes(by_id)
    yield from _of_controllers(by_id)
    yield from _deletions(ids)


def _data(by_id: list[Uuid], records: bytes, transactional: bytes) -> Iterator[Question]:
    partition = {"index": 0, "records": records}

    def produced(**fields: Any) -> Values:
        return {"acks": 1, "timeout_ms": 5000, **fields}

    named = [{"name": name, "partition_data": [partition]} for name in TOPICS]
    yield Question("produce", "Produce", 3, 12, produced(topic_data=named))
    numbered = [{"topic_id": topic_id, "partition_data": [partition]} for topic_id in by_id]
    yield Question("produce by id", "Produce", 13, _LATEST, produced(topic_data=numbered))
    partition = {"index": 0, "records": transactional}
    named = [{"name": name, "partition_data": [partition]} for name in TOPICS]
    for name in ("tx", "rival-tx", None):
        values = produced(transactional_id=name, topic_data=named)
        yield Question(f"produce as {name}", "Produce", 3 if name else 12, 12, values)

    def fetched(**fields: Any) -> Values:
        return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, **fields}

    read = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1000} for number in (0, 7)]
    named = [{"topic": name, "partitions": read} for name in TOPICS]
    numbered = [{"topic_id": topic_id, "partitions": read[:1]} for topic_id in by_id]
    unknown = [{"topic_id": topic_id, "partitions": read[1:]} for topic_id in by_id]
    yield Question("fetch of unknown partitions", "Fetch", 13, _LATEST, fetched(topics=unknown))
    yield Question("fetch", "Fetch", 4, 12, fetched(topics=named))
    yield Question("fetch by id", "Fetch", 13, _LATEST, fetched(topics=numbered))
    followed = [{**fetched_partition, "current_leader_epoch": 0} for fetched_partition in read]
    named = [{"topic": name, "partitions": followed} for name in TOPICS]
    numbered = [{"topic_id": topic_id, "partitions": followed[:1]} for topic_id in by_id]
    yield Question("fetch as a replica", "Fetch", 9, 12, fetched(replica_id=77, topics=named))
    yield Question(
        "fetch by id as a replica",
        "Fetch",
        15,
        _LATEST,
        fetched(replica_state={"replica_id": 77, "replica_epoch": -1}, topics=numbered),
    )
    wanted = [{"partition_index": 0, "timestamp": -1}]
    listed = {"topics": [{"name": name, "partitions": wanted} for name in TOPICS]}
    yield Question("list offsets", "ListOffsets", 1, _LATEST, listed)
    epochs = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    ended = [{"topic": name, "partitions": epochs} for name in TOPICS]
    yield Question("end of an epoch", "OffsetForLeaderEpoch", 2, _LATEST, {"topics": ended})
    yield Question(
        "delete records",
        "DeleteRecords",
        0,
        _LATEST,
        {
            "topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in TOPICS],
            "timeout_ms": 5000,
        },
    )
    yield Question(
        "describe producers",
        "DescribeProducers",
        0,
        _LATEST,
        {"topics": [{"name": name, "partition_indexes": [0]} for name in TOPICS]},
    )


def _offsets(by_id: list[Uuid]) -> Iterator[Question]:
    committed = [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]
    named = [{"name": name, "partitions": committed} for name in TOPICS]
    numbered = [{"topic_id": topic_id, "partitions": committed} for topic_id in by_id]
    for group in ("group", "rival"):
        values = {"group_id": group, "generation_id_or_member_epoch": -1}
        yield Question(f"commit of {group}", "OffsetCommit", 2, 9, {**values, "topics": named})
        yield Question(f"commit of {group} by id", "OffsetCommit", 10, _LATEST, {**values, "topics": numbered})
        wanted = [{"name": name, "partition_indexes": [0]} for name in TOPICS]
        yield Question(f"offsets of {group}", "OffsetFetch", 1, 7, {"group_id": group, "topics": wanted})
        yield Question(f"all offsets of {group}", "OffsetFetch", 2, 7, {"group_id": group, "topics": None})
        yield Question(
            f"delete offsets of {group}",
            "OffsetDelete",
            0,
            _LATEST,
            {
                "group_id": group,
                "topics": [{"name": name, "partitions": [{"partition_index": 9}]} for name in TOPICS],
            },
        )
        for transactional_id in ("tx", "rival-tx"):
            values = {"transactional_id": transactional_id, "group_id": group, "producer_id": 7, "producer_epoch": 0}
            yield Question(f"add offsets of {group} to {transactional_id}", "AddOffsetsToTxn", 0, _LATEST, values)
            yield Question(
                f"commit of {group} in {transactional_id}", "TxnOffsetCommit", 0, 5, {**values, "topics": named}
            )
    everything = [{"group_id": group, "topics": None} for group in GROUPS]
    wanted = [{"name": name, "partition_indexes": [0]} for name in TOPICS]
    yield Question("all offsets of groups", "OffsetFetch", 8, 9, {"groups": everything})
    groups = [{"group_id": group, "topics": wanted} for group in GROUPS]
    yield Question("offsets of groups", "OffsetFetch", 8, 9, {"groups": groups})
    numbered = [{"topic_id": topic_id, "partition_indexes": [0]} for topic_id in by_id]
    groups = [{"group_id": group, "topics": numbered} for group in GROUPS]
    yield Question("offsets of groups by id", "OffsetFetch", 10, _LATEST, {"groups": groups})


def _groups() -> Iterator[Question]:
    for kind, keys in ((0, GROUPS), (1, ("tx", "rival-tx"))):
        for key in keys:
            values = {"key": key, "key_type": kind}
            yield Question(f"coordinator {kind} of {key}", "FindCoordinator", 1, 3, values)
        yield Question(
            f"coordinators {kind}",
            "FindCoordinator",
            4,
            _LATEST,
            {"key_type": kind, "coordinator_keys": list(keys)},
        )
    for group in ("group", "rival"):
        protocols = [{"name": "range", "metadata": b""}]
        values = {"group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
        joined = {**values, "member_id": "stranger", "protocol_type": "consumer", "protocols": protocols}
        yield Question(f"join {group}", "JoinGroup", 1, _LATEST, joined)
        member = {"group_id": group, "generation_id": 1, "member_id": "stranger"}
        yield Question(f"sync {group}", "SyncGroup", 0, 4, member)
        synced = {**member, "protocol_type": "consumer", "protocol_name": "range"}
        yield Question(f"sync {group} by protocol", "SyncGroup", 5, _LATEST, synced)
        yield Question(f"heartbeat {group}", "Heartbeat", 0, _LATEST, member)
        yield Question(f"leave {group}", "LeaveGroup", 0, 2, {"group_id": group, "member_id": "stranger"})
        leaving = {"group_id": group, "members": [{"member_id": "stranger"}]}
        yield Question(f"leave {group} together", "LeaveGroup", 3, _LATEST, leaving)
        beat: dict[str, Any] = {"group_id": group, "member_id": "stranger", "member_epoch": 3}
        yield Question(f"new heartbeat {group}", "ConsumerGroupHeartbeat", 0, _LATEST, beat)
        for subscribed in ("topic", "missing", "other", "absent"):
            beat = {
                "group_id": group,
                "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
                "member_epoch": 0,
                "rebalance_timeout_ms": 1000,
                "subscribed_topic_names": [subscribed],
                "server_assignor": "nothing",
            }
            yield Question(f"{group} subscribes {subscribed}", "ConsumerGroupHeartbeat", 1, _LATEST, beat)
    described = {"groups": list(GROUPS), "include_authorized_operations": True}
    yield Question("describe groups", "DescribeGroups", 3, _LATEST, described)
    described = {"group_ids": list(GROUPS), "include_authorized_operations": True}
    yield Question("describe new groups", "ConsumerGroupDescribe", 0, _LATEST, described)
    yield Question("list groups", "ListGroups", 0, 3, {})
    yield Question("list groups by state", "ListGroups", 4, _LATEST, {"states_filter": []})
    yield Question("delete groups", "DeleteGroups", 0, _LATEST, {"groups_names": ["lost", "nobody"]})


def _transactions() -> Iterator[Question]:
    without_id = {"transactional_id": None, "transaction_timeout_ms": 1000}
    yield Question("producer id", "InitProducerId", 0, _LATEST, without_id)
    topics = [{"name": name, "partitions": [0]} for name in TOPICS]
    for name in ("tx", "rival-tx"):
        values = {"transactional_id": name, "transaction_timeout_ms": 0}
        yield Question(f"producer id of {name}", "InitProducerId", 0, _LATEST, values)
        old_request = {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": 7,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": topics,
        }
        yield Question(f"add partitions to {name}", "AddPartitionsToTxn", 0, 3, old_request)
        narrowed = {**old_request, "v3_and_below_topics": topics[:1]}
        yield Question(f"add a partition to {name}", "AddPartitionsToTxn", 0, 3, narrowed)
        ended = {"transactional_id": name, "producer_id": 7, "producer_epoch": 0, "committed": True}
        yield Question(f"end {name}", "EndTxn", 0, _LATEST, ended)
    transaction = {
        "transactional_id": "tx",
        "producer_id": 7,
        "producer_epoch": 0,
        "verify_only": True,
        "topics": topics,
    }
    yield Question("verify partitions", "AddPartitionsToTxn", 4, _LATEST, {"transactions": [transaction]})
    yield Question(
        "describe transactions", "DescribeTransactions", 0, _LATEST, {"transactional_ids": ["tx", "rival-tx", "no-tx"]}
    )
    yield Question("list transactions", "ListTransactions", 0, _LATEST, {})
    marker = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": "absent", "partition_indexes": [0]}],
    }
    yield Question("write markers", "WriteTxnMarkers", 1, 1, {"markers": [marker]})


def _topics(by_id: list[Uuid]) -> Iterator[Question]:
    without_creation = {"allow_auto_topic_creation": False}
    named = [{"name": name} for name in TOPICS]
    yield Question("metadata", "Metadata", 4, _LATEST, {**without_creation, "topics": named})
    yield Question("metadata of all", "Metadata", 4, _LATEST, {**without_creation, "topics": None})
    with_rights = {
        **without_creation,
        "topics": named,
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    yield Question("metadata with rights", "Metadata", 8, 10, with_rights)
    numbered = [{"name": None, "topic_id": topic_id} for topic_id in by_id]
    yield Question("metadata by id", "Metadata", 12, _LATEST, {**without_creation, "topics": numbered})
    yield Question("creating metadata", "Metadata", 4, _LATEST, {"topics": [{"name": "ab#c"}, {"name": "absent#"}]})
    yield Question("topic partitions", "DescribeTopicPartitions", 0, _LATEST, {"topics": named})
    yield Question("all topic partitions", "DescribeTopicPartitions", 0, _LATEST, {"topics": []})
    created = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in TOPICS]
    values: dict[str, Any] = {"topics": created, "timeout_ms": 5000, "validate_only": True}
    yield Question("create topics", "CreateTopics", 2, _LATEST, values)
    yield Question(
        "create a raft topic",
        "CreateTopics",
        2,
        _LATEST,
        {**values, "topics": [{**created[0], "name": "__cluster_metadata"}]},
    )
    grown = {"topics": [{"name": name, "count": 2, "assignments": None} for name in TOPICS], "validate_only": True}
    yield Question("create partitions", "CreatePartitions", 0, _LATEST, {**grown, "timeout_ms": 5000})
    partitions = [{"topic": name, "partitions": [0]} for name in TOPICS]
    values = {"topic_partitions": partitions, "timeout_ms": 5000}
    yield Question("elect leaders", "ElectLeaders", 0, _LATEST, values)
    yield Question("elect all leaders", "ElectLeaders", 1, _LATEST, {"topic_partitions": None, "timeout_ms": 5000})
    moved = [{"name": name, "partitions": [{"partition_index": 0, "replicas": None}]} for name in TOPICS]
    yield Question("reassign", "AlterPartitionReassignments", 0, _LATEST, {"timeout_ms": 5000, "topics": moved})
    listed = [{"name": name, "partition_indexes": [0]} for name in TOPICS]
    yield Question("reassignments", "ListPartitionReassignments", 0, _LATEST, {"timeout_ms": 5000, "topics": listed})
    dirs = [{"path": "/nowhere", "topics": [{"name": name, "partitions": [0]} for name in TOPICS]}]
    yield Question("move to a directory", "AlterReplicaLogDirs", 1, _LATEST, {"dirs": dirs})
    wanted = [{"topic": name, "partitions": [0]} for name in TOPICS]
    yield Question("directories", "DescribeLogDirs", 1, 4, {"topics": wanted})


def _deletions(ids: Mapping[str, Uuid]) -> Iterator[Question]:
    """The last questions, because `topic` and `other` may have to be created again."""
    for at_controller in (False, True):
        place = "controller: " if at_controller else ""
        values: dict[str, Any] = {"topic_names": list(TOPICS), "timeout_ms": 5000}
        yield Question(f"{place}delete topics", "DeleteTopics", 5, 5, values, at_controller, changes_topics=True)
        named = [{"name": name} for name in ("missing", "absent")]
        numbered = [{"name": None, "topic_id": topic_id} for topic_id in (ids["topic"], ids["other"], ABSENT_ID)]
        values = {"topics": [*named, *numbered], "timeout_ms": 5000}
        yield Question(f"{place}delete topics by id", "DeleteTopics", 6, 6, values, at_controller, changes_topics=True)
        named = [{"name": name} for name in TOPICS]
        values = {"topics": named, "timeout_ms": 5000}
        yield Question(
            f"{place}delete topics by name", "DeleteTopics", 6, 6, values, at_controller, changes_topics=True
        )


_RESOURCES = [(2, name) for name in TOPICS] + [
    (4, "1"),
    (4, ""),
    (8, "1"),
    (16, "metrics"),
    (32, "group"),
    (32, "rival"),
]


def _settings() -> Iterator[Question]:
    keys = {2: ["retention.ms"], 4: ["log.retention.ms"], 8: ["root"], 16: ["interval.ms"], 32: []}
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys[kind]} for kind, name in _RESOURCES
    ]
    yield Question("describe configs", "DescribeConfigs", 1, _LATEST, {"resources": resources})
    values = {
        2: ("retention.ms", "1000"),
        4: ("log.retention.ms", "1000"),
        8: ("root", "INFO"),
        16: ("interval.ms", "1000"),
    }
    values[32] = ("consumer.session.timeout.ms", "50000")
    changed = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [dict(zip(("name", "value"), values[kind], strict=True))],
        }
        for kind, name in _RESOURCES
    ]
    without_loggers = [resource for resource in changed if resource["resource_type"] != 8]
    yield Question("alter configs", "AlterConfigs", 0, _LATEST, {"resources": without_loggers, "validate_only": True})
    yield Question(
        "alter configs by steps", "IncrementalAlterConfigs", 0, _LATEST, {"resources": changed, "validate_only": True}
    )
    yield Question("config resources", "ListConfigResources", 0, 0, {})
    yield Question("all config resources", "ListConfigResources", 1, _LATEST, {"resource_types": [2, 4, 16, 32]})
    quota = {
        "entity": [{"entity_type": "user", "entity_name": "ann"}],
        "ops": [{"key": "producer_byte_rate", "value": 9.0}],
    }
    yield Question("alter quotas", "AlterClientQuotas", 0, _LATEST, {"entries": [quota], "validate_only": True})
    yield Question("describe quotas", "DescribeClientQuotas", 0, _LATEST, {"components": []})
    yield Question("describe credentials", "DescribeUserScramCredentials", 0, _LATEST, {"users": [{"name": "nobody"}]})
    changes = {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []}
    yield Question("alter credentials", "AlterUserScramCredentials", 0, _LATEST, changes)
    pattern: Values = {
        "principal_filter": None,
        "host_filter": None,
        "resource_type_filter": 2,
        "pattern_type_filter": 3,
        "operation": 1,
        "permission_type": 1,
    }
    yield Question("describe ACLs", "DescribeAcls", 1, _LATEST, {**pattern, "resource_name_filter": "nothing"})
    yield Question(
        "delete ACLs", "DeleteAcls", 1, _LATEST, {"filters": [{**pattern, "resource_name_filter": "nothing"}]}
    )
    wrong = {"resource_type": 4, "resource_name": "mine", "resource_pattern_type": 3, "principal": "User:a"}
    wrong = {**wrong, "host": "*", "operation": 3, "permission_type": 3}
    yield Question("create ACLs", "CreateAcls", 1, _LATEST, {"creations": [wrong]})


def _cluster() -> Iterator[Question]:
    with_rights = {"include_cluster_authorized_operations": True}
    yield Question("cluster", "DescribeCluster", 0, 0, with_rights)
    yield Question("cluster by endpoint", "DescribeCluster", 1, 1, {**with_rights, "endpoint_type": 1})
    yield Question(
        "fenced brokers", "DescribeCluster", 2, 2, {**with_rights, "endpoint_type": 1, "include_fenced_brokers": True}
    )
    log = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    yield Question("quorum", "DescribeQuorum", 0, _LATEST, {"topics": log})
    update = {"feature": "metadata.version", "max_version_level": 1, "upgrade_type": 1}
    features = {"timeout_ms": 5000, "feature_updates": [update], "validate_only": True}
    yield Question("features", "UpdateFeatures", 1, _LATEST, features)
    yield Question("unregister a broker", "UnregisterBroker", 0, _LATEST, {"broker_id": 77})
    voter = {"cluster_id": "not this one", "voter_id": 9, "voter_directory_id": ABSENT_ID}
    yield Question("add a voter", "AddRaftVoter", 0, 0, {**voter, "timeout_ms": 1000, "listeners": []})
    yield Question("remove a voter", "RemoveRaftVoter", 0, _LATEST, voter)


def _between_nodes(by_id: list[Uuid]) -> Iterator[Question]:
    """Requests for share group state, which brokers send to each other."""
    extra: dict[str, dict[str, Any]] = {
        "InitializeShareGroupState": {"state_epoch": 0, "start_offset": 0},
        "ReadShareGroupState": {"leader_epoch": 0},
        "WriteShareGroupState": {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []},
        "DeleteShareGroupState": {},
        "ReadShareGroupStateSummary": {"leader_epoch": 0},
    }
    for api, fields in extra.items():
        topics = [{"topic_id": by_id[0], "partitions": [{"partition": 0, **fields}]}]
        yield Question(api, api, 0, 0, {"group_id": "group", "topics": topics})
    # With rights, this request makes Apache Kafka create the topic of the share coordinator.
    share = {"key_type": 2, "coordinator_keys": ["group:AAAAAAAAAAAAAAAAAAAAAA:0"]}
    yield Question("share coordinator", "FindCoordinator", 6, _LATEST, share, only=_WITHOUT_CLUSTER_ACTION)
    described = {"group_ids": ["group", "rival"], "include_authorized_operations": True}
    yield Question("describe share groups", "ShareGroupDescribe", 1, _LATEST, described)
    yield Question("describe streams groups", "StreamsGroupDescribe", 0, 0, described)
    for group in ("group", "rival"):
        member = {"group_id": group, "member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 0}
        yield Question(
            f"share heartbeat {group}",
            "ShareGroupHeartbeat",
            1,
            _LATEST,
            {**member, "subscribed_topic_names": ["topic"]},
        )


def _of_controllers(by_id: list[Uuid]) -> Iterator[Question]:
    """Requests to a controller's listener from a client, although only nodes should connect there."""

    def question(label: str, api: str, first: int, last: int, values: Values) -> Question:
        return Question(f"controller: {label}", api, first, last, values, at_controller=True)

    other = "not this cluster"
    yield question("vote", "Vote", 0, _LATEST, {"cluster_id": other, "topics": []})
    yield question("begin an epoch", "BeginQuorumEpoch", 0, _LATEST, {"cluster_id": other, "topics": []})
    yield question("end an epoch", "EndQuorumEpoch", 0, _LATEST, {"cluster_id": other, "topics": []})
    yield question(
        "fetch a snapshot", "FetchSnapshot", 0, _LATEST, {"cluster_id": other, "max_bytes": 1000, "topics": []}
    )
    log = {"topic": "__cluster_metadata", "partitions": [{"partition": 0, "partition_max_bytes": 1}]}
    values = {"cluster_id": other, "max_bytes": 1000, "topics": [log]}
    yield question("fetch the log", "Fetch", 12, 12, values)
    yield question("heartbeat of a broker", "BrokerHeartbeat", 0, _LATEST, {"broker_id": 77, "broker_epoch": 1})
    registered = {"broker_id": 77, "cluster_id": other, "incarnation_id": ABSENT_ID, "listeners": [], "features": []}
    yield question("register a broker", "BrokerRegistration", 0, 0, registered)
    registered = {"controller_id": 77, "incarnation_id": ABSENT_ID, "listeners": [], "features": []}
    yield question("register a controller", "ControllerRegistration", 0, _LATEST, registered)
    yield question("producer ids", "AllocateProducerIds", 0, _LATEST, {"broker_id": 77, "broker_epoch": 1})
    state = {"partition_index": 0, "leader_epoch": 0, "new_isr": [1], "partition_epoch": 0}
    altered = {"broker_id": 77, "broker_epoch": 1, "topics": [{"topic_id": ABSENT_ID, "partitions": [state]}]}
    yield question("change replicas in sync", "AlterPartition", 2, 2, altered)
    assigned = {"broker_id": 77, "broker_epoch": 1, "directories": []}
    yield question("assign directories", "AssignReplicasToDirs", 0, _LATEST, assigned)
    voter = {"cluster_id": other, "voter_id": 9, "voter_directory_id": ABSENT_ID, "listeners": []}
    yield question("update a voter", "UpdateRaftVoter", 0, _LATEST, voter)
    envelope = {"request_data": b"", "request_principal": b"", "client_host_address": b"\x7f\0\0\1"}
    yield question("envelope", "Envelope", 0, _LATEST, envelope)
    for broker_question in (*_topics(by_id), *_settings(), *_cluster()):
        if broker_question.api in _ALSO_AT_CONTROLLERS:
            yield broker_question._replace(label=f"controller: {broker_question.label}", at_controller=True)
    with_rights = {"include_cluster_authorized_operations": True, "endpoint_type": 2}
    yield question("cluster", "DescribeCluster", 1, 1, with_rights)
