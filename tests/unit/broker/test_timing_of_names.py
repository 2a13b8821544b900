"""The time of a refusal does not reveal whether a topic, a group or a transaction exists.

A clock cannot show that on a busy machine. What can be shown is that the node takes the same steps: a client without
rights asks about something that exists and about something that does not, and both requests call the same functions in
the same order and get the same answer. A look-up before the check of rights would be a difference.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from ottla.broker.access.standard import StandardAuthorizer
from ottla.model.config import BrokerConfig
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.api import API_SPECS
from tests.support.authorization_requests import build
from tests.support.lone_node import LoneNode, frame_of

SPECS = {spec.name: spec for spec in API_SPECS.values()}
# Names of the same length: the second one does not exist.
PRESENT, ABSENT = "other", "never"
BATCH = bytes(build_batch([Record(offset=0, timestamp=1, key=None, value=b"x")]))
LATEST = 99

# API, version, and the body of a request about a name.
Case = tuple[str, int, Callable[[str], dict[str, Any]]]


def produced(name: str) -> dict[str, Any]:
    data = [{"name": name, "partition_data": [{"index": 0, "records": BATCH}]}]
    return {"acks": 1, "timeout_ms": 5000, "topic_data": data}


def fetched(name: str) -> dict[str, Any]:
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "topics": [{"topic": name, "partitions": wanted}]}


def altered(name: str) -> dict[str, Any]:
    return {
        "resources": [{"resource_type": 2, "resource_name": name, "configs": [{"name": "retention.ms", "value": "9"}]}]
    }


def committed(name: str) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]


def added(transaction: str, topic: str) -> dict[str, Any]:
    topics = [{"name": topic, "partitions": [0]}]
    entry = {"transactional_id": transaction, "producer_id": 1, "producer_epoch": 0, "topics": topics}
    return {"transactions": [entry]}


TOPICS: list[Case] = [
    ("Produce", 12, produced),
    ("Produce", 7, produced),
    ("Fetch", 12, fetched),
    ("Fetch", 4, fetched),
    (
        "ListOffsets",
        LATEST,
        lambda name: {"topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
    ),
    ("Metadata", LATEST, lambda name: {"topics": [{"name": name}]}),
    (
        "OffsetForLeaderEpoch",
        LATEST,
        lambda name: {"topics": [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
    ),
    (
        "DeleteRecords",
        LATEST,
        lambda name: {"timeout_ms": 5000, "topics": [{"name": name, "partitions": [{"partition_index": 0}]}]},
    ),
    ("DescribeTopicPartitions", LATEST, lambda name: {"topics": [{"name": name}]}),
    ("DescribeProducers", LATEST, lambda name: {"topics": [{"name": name, "partition_indexes": [0]}]}),
    (
        "DescribeConfigs",
        LATEST,
        lambda name: {"resources": [{"resource_type": 2, "resource_name": name, "configuration_keys": None}]},
    ),
    ("IncrementalAlterConfigs", LATEST, altered),
    ("AlterConfigs", LATEST, altered),
    (
        "CreateTopics",
        LATEST,
        lambda name: {"timeout_ms": 5000, "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}]},
    ),
    (
        "CreatePartitions",
        LATEST,
        lambda name: {"timeout_ms": 5000, "topics": [{"name": name, "count": 3, "assignments": None}]},
    ),
    ("DeleteTopics", LATEST, lambda name: {"timeout_ms": 5000, "topics": [{"name": name}]}),
    (
        "ElectLeaders",
        LATEST,
        lambda name: {"timeout_ms": 5000, "election_type": 0, "topic_partitions": [{"topic": name, "partitions": [0]}]},
    ),
    ("OffsetCommit", 9, lambda name: {"group_id": "mine", "topics": committed(name)}),
    (
        "OffsetFetch",
        9,
        lambda name: {"groups": [{"group_id": "mine", "topics": [{"name": name, "partition_indexes": [0]}]}]},
    ),
    (
        "OffsetDelete",
        LATEST,
        lambda name: {"group_id": "mine", "topics": [{"name": name, "partitions": [{"partition_index": 0}]}]},
    ),
    ("AddPartitionsToTxn", LATEST, lambda name: added("mine", name)),
    (
        "TxnOffsetCommit",
        LATEST,
        lambda name: {"transactional_id": "mine", "group_id": "mine", "topics": committed(name)},
    ),
]

GROUPS: list[Case] = [
    ("FindCoordinator", LATEST, lambda name: {"key_type": 0, "coordinator_keys": [name]}),
    (
        "JoinGroup",
        LATEST,
        lambda name: {
            "group_id": name,
            "session_timeout_ms": 9000,
            "protocol_type": "consumer",
            "protocols": [{"name": "x", "metadata": b""}],
        },
    ),
    (
        "SyncGroup",
        LATEST,
        lambda name: {
            "group_id": name,
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "x",
        },
    ),
    ("Heartbeat", LATEST, lambda name: {"group_id": name, "generation_id": 1, "member_id": "m"}),
    ("LeaveGroup", LATEST, lambda name: {"group_id": name, "members": [{"member_id": "m"}]}),
    ("OffsetCommit", 9, lambda name: {"group_id": name, "topics": committed(PRESENT)}),
    ("OffsetFetch", 9, lambda name: {"groups": [{"group_id": name, "topics": None}]}),
    ("OffsetDelete", LATEST, lambda name: {"group_id": name, "topics": []}),
    ("DescribeGroups", LATEST, lambda name: {"groups": [name]}),
    ("DeleteGroups", LATEST, lambda name: {"groups_names": [name]}),
    ("ConsumerGroupHeartbeat", LATEST, lambda name: {"group_id": name, "member_id": "m", "member_epoch": 0}),
    ("ConsumerGroupDescribe", LATEST, lambda name: {"group_ids": [name]}),
    (
        "TxnOffsetCommit",
        LATEST,
        lambda name: {"transactional_id": "mine", "group_id": name, "topics": committed(PRESENT)},
    ),
    ("AddOffsetsToTxn", LATEST, lambda name: {"transactional_id": "mine", "producer_id": 1, "group_id": name}),
]

TRANSACTIONS: list[Case] = [
    ("FindCoordinator", LATEST, lambda name: {"key_type": 1, "coordinator_keys": [name]}),
    ("InitProducerId", LATEST, lambda name: {"transactional_id": name, "transaction_timeout_ms": 9000}),
    ("AddPartitionsToTxn", LATEST, lambda name: added(name, PRESENT)),
    ("AddOffsetsToTxn", LATEST, lambda name: {"transactional_id": name, "producer_id": 1, "group_id": "mine"}),
    (
        "TxnOffsetCommit",
        LATEST,
        lambda name: {"transactional_id": name, "group_id": "mine", "topics": committed(PRESENT)},
    ),
    ("EndTxn", LATEST, lambda name: {"transactional_id": name, "producer_id": 1}),
    ("DescribeTransactions", LATEST, lambda name: {"transactional_ids": [name]}),
    ("Produce", 12, lambda name: {**produced(PRESENT), "transactional_id": name}),
]


@pytest.fixture(scope="module")
def node() -> LoneNode:
    """A node with a topic, a group and a transactional id PRESENT, and an authorizer that allows nothing."""
    lone_node = LoneNode()
    ask(
        lone_node,
        "CreateTopics",
        LATEST,
        {"timeout_ms": 5000, "topics": [{"name": PRESENT, "num_partitions": 1, "replication_factor": 1}]},
    )
    for kind in (0, 1):
        ask(lone_node, "FindCoordinator", LATEST, {"key_type": kind, "coordinator_keys": [PRESENT]})
    lone_node.run_for(5)
    done = ask(lone_node, "OffsetCommit", 9, {"group_id": PRESENT, "topics": committed(PRESENT)})
    assert done.topics[0].partitions[0].error_code == 0
    done = ask(lone_node, "InitProducerId", LATEST, {"transactional_id": PRESENT, "transaction_timeout_ms": 9000})
    assert done.error_code == 0
    lone_node.authorize_with(StandardAuthorizer(BrokerConfig.embedded()))
    # The client without rights uses another connection than the setup.
    for connection in lone_node._connections.values():
        connection.connection_id = "stranger"
    return lone_node


def ask(node: LoneNode, api: str, version: int, values: dict[str, Any]) -> Any:
    spec = SPECS[api]
    return node.ask(int(spec.key), min(version, spec.request_max_version), build(spec.request_class, values))


def steps(node: LoneNode, api: str, version: int, values: dict[str, Any]) -> tuple[list[str], bytes]:
    """The functions of the node that a request calls, and its answer. Asked twice: the first request fills caches."""
    spec = SPECS[api]
    frame = frame_of(int(spec.key), min(version, spec.request_max_version), build(spec.request_class, values))
    called: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        module = code.co_filename.partition("/src/ottla/")[2]
        # Only some requests are timed, whatever they ask for.
        is_sampling = module == "broker/statistics.py" or code.co_qualname == "Route.start_timing"
        if event == "call" and module and not module.startswith("sim/") and not is_sampling:
            called.append(f"{module}:{code.co_qualname}")

    node.send(frame)
    # A collection would close files of earlier tests, among the steps of the request.
    gc.disable()
    sys.setprofile(note)
    try:
        answer = node.send(frame)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert answer.body is not None, answer.close_reason
    return called, answer.body


@pytest.mark.parametrize(
    ("api", "version", "about"),
    [*TOPICS, *GROUPS, *TRANSACTIONS],
    ids=[
        f"{api} {min(version, SPECS[api].request_max_version)} {kind}"
        for kind, cases in (("topic", TOPICS), ("group", GROUPS), ("transaction", TRANSACTIONS))
        for api, version, _ in cases
    ],
)
def test_a_refusal_takes_the_same_steps_for_names_that_exist(
    node: LoneNode, api: str, version: int, about: Callable[[str], dict[str, Any]]
) -> None:
    present, answer = steps(node, api, version, about(PRESENT))
    absent, other_answer = steps(node, api, version, about(ABSENT))
    assert answer.replace(PRESENT.encode(), ABSENT.encode()) == other_answer.replace(PRESENT.encode(), ABSENT.encode())
    assert present == absent
    assert any("authorize" in step for step in present)
