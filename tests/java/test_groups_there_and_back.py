"""A consumer group (KIP-848) whose data directory is used by Ottla, Apache Kafka and Ottla again: its members go on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.java.conftest import require_java
from tests.support.brokers import OttlaFromFile, QuickKafka
from tests.support.raw_client import RawClient

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.consumer.assignment.interval.ms": "0",
}


def group_of(client: RawClient) -> Any:
    """The description of the group, once the coordinator has loaded it."""
    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    for _ in range(1_200):
        (group,) = client.call(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
        if group.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            return group
        time.sleep(0.05)
    raise AssertionError(ErrorCode(group.error_code))


def beat(client: RawClient, epoch: int, topic_id: Uuid | None = None) -> Any:
    is_joining = epoch == 0
    owned = [] if topic_id is None else [TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    response = client.call(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=epoch,
            instance_id="i",
            rebalance_timeout_ms=60_000 if is_joining else -1,
            subscribed_topic_names=["t"] if is_joining else None,
            topic_partitions=owned,
        ),
        1,
    )
    assert response.error_code == 0, response.error_message
    return response


@pytest.mark.slow
def test_a_consumer_group_goes_there_and_back(tmp_path: Path) -> None:
    require_java()
    with OttlaFromFile(tmp_path, SETTINGS) as ottla, RawClient(ottla.bootstrap) as client:
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        created = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0]
        assert group_of(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        epoch = beat(client, 0).member_epoch
        epoch = beat(client, epoch, created.topic_id).member_epoch
    for kind, heap in ((QuickKafka, {"heap": "512m"}), (OttlaFromFile, {})):
        with kind(tmp_path, SETTINGS, **heap) as broker, RawClient(broker.bootstrap) as client:
            (member,) = group_of(client).members
            assert (member.member_id, member.instance_id, member.member_epoch) == ("m", "i", epoch)
            assert member.assignment.topic_partitions[0].partitions == [0, 1]
            # The new coordinator computes the hash of the topics again, which may begin an epoch. No partition moves.
            response = beat(client, epoch, created.topic_id)
            assert response.member_epoch - epoch in (0, 1)
            epoch = response.member_epoch
            assert group_of(client).group_state == "Stable"
