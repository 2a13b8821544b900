"""Requests that name the same object several times, and their answers.

The same requests go to Apache Kafka (`tests/data/make_repeat_answers.py` keeps its answers) and to Ottla. Only names,
error codes and positions are kept, and lists are sorted, because Kafka's order depends on its hash tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ottla.model.errors import ErrorCode
from ottla.wire.message import Message, Structure
from ottla.wire.messages import alter_configs as ac
from ottla.wire.messages import create_partitions as cp
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages import delete_records as dr
from ottla.wire.messages import delete_topics as dt
from ottla.wire.messages import describe_configs as dc
from ottla.wire.messages import describe_log_dirs as dl
from ottla.wire.messages import describe_producers as dp
from ottla.wire.messages import describe_topic_partitions as dtp
from ottla.wire.messages import elect_leaders as el
from ottla.wire.messages import incremental_alter_configs as iac
from ottla.wire.messages import list_offsets as lo
from ottla.wire.messages import metadata as md
from ottla.wire.messages import offset_commit as oc
from ottla.wire.messages import offset_delete as od
from ottla.wire.messages import offset_fetch as of
from ottla.wire.messages import offset_for_leader_epoch as ole
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["play"]

TOPIC, OTHER, GROUP, UNKNOWN = "repeated", "other", "group", "unknown"
WAIT_SECONDS_MAX = 60.0
# Apache Kafka does not answer some of these requests at all.
ANSWER_SECONDS_MAX = 10.0
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4

# Requests that create a coordinator, and the request that shows that it is loaded.
COORDINATED: dict[str, tuple[Message, int]] = {
    "coordinators of groups": (DescribeGroupsRequest(groups=[GROUP]), 5),
    "coordinators of transactions": (DescribeTransactionsRequest(transactional_ids=[UNKNOWN]), 0),
}

# The fields of answers that are compared, besides error codes and arrays.
KEPT = frozenset(
    (
        "name",
        "group_id",
        "topic",
        "topic_name",
        "partition_index",
        "partition",
        "partition_id",
        "index",
        "key",
        "transactional_id",
        "resource_name",
        "resource_type",
        "committed_offset",
        "group_state",
        "offset",
        "low_watermark",
        "end_offset",
    )
)


def play(bootstrap: str) -> dict[str, Any]:
    """Sends all requests; returns the answers by label."""
    with RawClient(bootstrap) as client:
        broker_id = client.call(md.MetadataRequest(topics=[]), 9).brokers[0].node_id
    answers: dict[str, Any] = {}
    for label, version, request in _requests(str(broker_id)):
        if label == "metadata":
            _wait_for_topics(bootstrap)
        if label in COORDINATED:
            _wait_until_loaded(bootstrap, request, *COORDINATED[label])
        answers[label] = _answer(bootstrap, request, version)
    return answers


def _wait_for_topics(bootstrap: str) -> None:
    """Returns when the broker serves both topics."""
    wanted = md.MetadataRequest(topics=_topics(md.MetadataRequestTopic, TOPIC, OTHER), allow_auto_topic_creation=False)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    with RawClient(bootstrap) as client:
        while any(topic.error_code for topic in client.call(wanted, 9).topics):
            assert time.monotonic() < deadline, "the topics were not created"


def _wait_until_loaded(bootstrap: str, find: Message, question: Message, version: int) -> None:
    """Returns when the coordinator answers the question."""
    away = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    with RawClient(bootstrap) as client:
        while True:
            client.call(find, 4)
            answer = client.call(question, version)
            (state,) = getattr(answer, "groups", None) or answer.transaction_states
            if state.error_code not in away:
                return
            assert time.monotonic() < deadline, "the coordinator was not loaded"


def _answer(bootstrap: str, request: Message, version: int) -> Any:
    with RawClient(bootstrap, timeout_seconds=ANSWER_SECONDS_MAX) as client:
        try:
            return _plain(client.call(request, version))
        except ConnectionClosed:
            return "closed"
        except TimeoutError:
            return "no answer"


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(
            (_plain(element) for element in value if isinstance(element, (Structure, int))),
            key=repr,
        )
    if not isinstance(value, Structure):
        return value
    plain = {}
    for slot in value.__slots__:
        field = getattr(value, slot)
        if slot == "configs":
            # The keys of a topic or broker differ between the two systems.
            plain["has_configs"] = bool(field)
        elif slot in KEPT or slot.endswith("error_code") or (isinstance(field, list) and slot not in _NOT_KEPT):
            plain[slot] = _plain(field)
    return plain


# Lists whose content is irrelevant here.
_NOT_KEPT = frozenset({"brokers", "replica_nodes", "isr_nodes", "offline_replicas", "members", "active_producers"})


def _topics(structure: Any, *names: str, **fields: Any) -> list[Any]:
    return [structure(name=name, **fields) for name in names]


def _requests(broker_id: str) -> Iterator[tuple[str, int, Message]]:
    yield from _administration(broker_id)
    yield from _groups()
    yield from _partitions()
    yield (
        "delete topics by name",
        5,
        dt.DeleteTopicsRequest(topic_names=[OTHER, OTHER, UNKNOWN, UNKNOWN], timeout_ms=30_000),
    )
    named = _topics(dt.DeleteTopicState, TOPIC, TOPIC, UNKNOWN, UNKNOWN)
    yield "delete topics", 6, dt.DeleteTopicsRequest(topics=named, timeout_ms=30_000)
    left = _topics(md.MetadataRequestTopic, TOPIC, OTHER)
    yield "topics that are left", 9, md.MetadataRequest(topics=left, allow_auto_topic_creation=False)


def _administration(broker_id: str) -> Iterator[tuple[str, int, Message]]:
    sizes = {"num_partitions": 2, "replication_factor": 1}
    twice = _topics(ct.CreatableTopic, TOPIC, TOPIC, OTHER, **sizes)
    yield "create topics", 7, ct.CreateTopicsRequest(topics=twice, timeout_ms=30_000)
    once = _topics(ct.CreatableTopic, TOPIC, **sizes)
    yield "create a topic", 7, ct.CreateTopicsRequest(topics=once, timeout_ms=30_000)
    named = _topics(md.MetadataRequestTopic, TOPIC, TOPIC, UNKNOWN, UNKNOWN)
    yield "metadata", 9, md.MetadataRequest(topics=named, allow_auto_topic_creation=False)
    pages = _topics(dtp.TopicRequest, TOPIC, TOPIC, UNKNOWN, UNKNOWN)
    yield "topic partitions", 0, dtp.DescribeTopicPartitionsRequest(topics=pages)
    resources = [
        dc.DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in 2 * [(TOPIC_RESOURCE, TOPIC), (BROKER_RESOURCE, broker_id), (TOPIC_RESOURCE, UNKNOWN)]
    ]
    yield "describe configs", 4, dc.DescribeConfigsRequest(resources=resources)
    grown = _topics(cp.CreatePartitionsTopic, TOPIC, TOPIC, OTHER, count=3)
    yield "create partitions", 3, cp.CreatePartitionsRequest(topics=grown, timeout_ms=30_000)
    change = iac.AlterableConfig(name="retention.ms", config_operation=0, value="1000000")
    changes = [
        iac.AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=[change])
        for name in (TOPIC, TOPIC, OTHER)
    ]
    yield "alter configs incrementally", 1, iac.IncrementalAlterConfigsRequest(resources=changes)
    same_key = iac.AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=[change, change])
    yield "alter a key twice", 1, iac.IncrementalAlterConfigsRequest(resources=[same_key])
    replaced = [
        ac.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=name,
            configs=[ac.AlterableConfig(name="retention.ms", value="1000000")],
        )
        for name in (TOPIC, TOPIC, OTHER)
    ]
    yield "alter configs", 2, ac.AlterConfigsRequest(resources=replaced)


def _groups() -> Iterator[tuple[str, int, Message]]:
    yield "coordinators of groups", 4, FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP, GROUP])
    commits = [
        oc.OffsetCommitRequestTopic(
            name=TOPIC,
            partitions=[
                oc.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                for index, offset in partitions
            ],
        )
        for partitions in (((0, 1), (0, 2), (1, 3)), ((0, 4), (1, 5)))
    ]
    yield "commit offsets of a topic and its partitions", 8, oc.OffsetCommitRequest(group_id=GROUP, topics=commits)
    wanted = [
        of.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=indexes) for indexes in ([0, 0, 1], [0, 1], [7, 7])
    ]
    single = of.OffsetFetchRequestGroup(group_id=GROUP, topics=wanted)
    yield "fetch offsets of partitions", 8, of.OffsetFetchRequest(groups=[single])
    whole = of.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    unknown = of.OffsetFetchRequestGroup(group_id=UNKNOWN, topics=None)
    yield "fetch offsets of groups", 8, of.OffsetFetchRequest(groups=[whole, whole, unknown, unknown])
    names = [GROUP, GROUP, UNKNOWN, UNKNOWN]
    yield "describe groups", 5, DescribeGroupsRequest(groups=names)
    yield "describe groups in version 6", 6, DescribeGroupsRequest(groups=names)
    yield "describe consumer groups", 0, ConsumerGroupDescribeRequest(group_ids=names)
    removed = [
        od.OffsetDeleteRequestTopic(
            name=TOPIC, partitions=[od.OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for indexes in ([0, 0], [0])
    ]
    yield "delete offsets", 0, od.OffsetDeleteRequest(group_id=GROUP, topics=removed)
    yield "delete groups", 2, DeleteGroupsRequest(groups_names=names)
    yield "coordinators of transactions", 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[UNKNOWN, UNKNOWN])
    yield "describe transactions", 0, DescribeTransactionsRequest(transactional_ids=[UNKNOWN, UNKNOWN])


def _partitions() -> Iterator[tuple[str, int, Message]]:
    topics = [
        lo.ListOffsetsTopic(
            name=TOPIC, partitions=[lo.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in indexes]
        )
        for indexes in ([0, 0, 1], [0])
    ]
    yield "list offsets", 7, lo.ListOffsetsRequest(topics=topics)
    epochs = [
        ole.OffsetForLeaderTopic(
            topic=TOPIC,
            partitions=[ole.OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in indexes],
        )
        for indexes in ([0, 0, 1], [0])
    ]
    yield "leader epochs", 4, ole.OffsetForLeaderEpochRequest(topics=epochs)
    cut = [
        dr.DeleteRecordsTopic(
            name=TOPIC, partitions=[dr.DeleteRecordsPartition(partition_index=index, offset=0) for index in indexes]
        )
        for indexes in ([0, 0, 1], [0])
    ]
    yield "delete records", 2, dr.DeleteRecordsRequest(topics=cut, timeout_ms=30_000)
    replicas = [dl.DescribableLogDirTopic(topic=TOPIC, partitions=partitions) for partitions in ([0, 0, 1], [0])]
    yield "log directories", 4, dl.DescribeLogDirsRequest(topics=replicas)
    producers = [dp.TopicRequest(name=TOPIC, partition_indexes=indexes) for indexes in ([0, 0, 1], [0])]
    yield "producers", 0, dp.DescribeProducersRequest(topics=producers)
    elected = [el.TopicPartitions(topic=TOPIC, partitions=partitions) for partitions in ([0, 0, 1], [0])]
    yield "elect leaders", 2, el.ElectLeadersRequest(topic_partitions=elected, timeout_ms=30_000)
