"""Settings of a node seen from outside: one node with many settings, and the effect of every setting on clients."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ottla.model.errors import ErrorCode
from ottla.testing import Cluster, cluster
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.cluster_calls import wait_until
from tests.integration.data_path import batch, create_topic, fetch_request, produce_request, values
from tests.support.raw_client import RawClient

MINUTE_MS = 60_000
# Less than the hour that Kafka allows by default for timestamps in the future.
LIMIT_MS, BEYOND_MS = 10 * MINUTE_MS, 30 * MINUTE_MS
SETTINGS = {
    "group.max.session.timeout.ms": "10000",
    "log.message.timestamp.after.max.ms": str(LIMIT_MS),
    "log.message.timestamp.before.max.ms": str(LIMIT_MS),
    "max.request.partition.size.limit": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "3000000",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.segment.bytes": "4000000",
}


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster(settings=SETTINGS) as started:
        yield started


@pytest.fixture
def client(running: Cluster) -> Iterator[RawClient]:
    with RawClient(running.bootstrap) as connected:
        yield connected


def now_ms() -> int:
    return int(time.time() * 1000)


def test_a_members_session_is_not_longer_than_groups_may_have(client: RawClient) -> None:
    def joins(session_timeout_ms: int) -> int:
        wait_until(
            lambda: not client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code,
            "the group has a coordinator",
        )
        answers = []

        def answered() -> bool:
            protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
            request = JoinGroupRequest(
                group_id="g", session_timeout_ms=session_timeout_ms, protocol_type="consumer", protocols=[protocol]
            )
            answers.append(client.call(request, 4).error_code)
            return answers[-1] not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

        wait_until(answered, "the coordinator has loaded its group")
        return int(answers[-1])

    assert joins(10_001) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert joins(10_000) == ErrorCode.MEMBER_ID_REQUIRED


def test_no_more_partitions_are_described_at_once(client: RawClient) -> None:
    topic = create_topic(client, partitions=3)
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)], response_partition_limit=2_000)
    answer = client.call(request, 0)
    assert [partition.partition_index for partition in answer.topics[0].partitions] == [0, 1]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == (topic, 2)


@pytest.mark.parametrize(("age_ms", "error"), [(0, 0), (BEYOND_MS, 32), (-BEYOND_MS, 32)])
def test_records_are_neither_too_old_nor_from_the_future(client: RawClient, age_ms: int, error: int) -> None:
    topic = create_topic(client)
    records = batch("a", timestamp=now_ms() - age_ms)
    answer = client.call(produce_request(topic, records), 9).responses[0].partition_responses[0]
    assert answer.error_code == error


def test_a_segment_has_its_room_from_the_beginning_and_gives_it_back() -> None:
    settings = {"log.preallocate": "true", "log.segment.bytes": "2000000"}
    with cluster(settings=settings) as running:
        node, records = running.node(1), batch("a")
        with RawClient(running.bootstrap) as client:
            topic = create_topic(client)
            assert client.call(produce_request(topic, records), 9).responses[0].partition_responses[0].error_code == 0
        (segment,) = (node.directory / "data" / f"{topic}-0").glob("*.log")
        assert segment.stat().st_size == 2_000_000
        # Preallocated space is not read as records after a crash, and is removed by a clean stop.
        node.kill()
        node.start()
        with RawClient(running.bootstrap) as client:
            wait_until(lambda: has_leader(client, topic), "the partition has its leader again")
            answer = client.call(fetch_request(topic, {0: 0}), 12).responses[0].partitions[0]
            assert (answer.error_code, values(answer.records)) == (0, ["a"])
            assert client.call(produce_request(topic, records), 9).responses[0].partition_responses[0].base_offset == 1
        node.stop()
        assert segment.stat().st_size == 2 * len(records)


def has_leader(client: RawClient, topic: str) -> bool:
    (topic_metadata,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics
    return not topic_metadata.error_code and topic_metadata.partitions[0].error_code == 0


@pytest.mark.parametrize(
    ("key_type", "topic", "segment_bytes"),
    [(0, "__consumer_offsets", "3000000"), (1, "__transaction_state", "4000000")],
)
def test_internal_topics_have_segments_of_their_own_size(
    client: RawClient, key_type: int, topic: str, segment_bytes: str
) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
    wait_until(lambda: not client.call(request, 4).coordinators[0].error_code, f"{topic} is there")
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=["segment.bytes"])
    (described,) = client.call(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [(config.name, config.value) for config in described.configs] == [("segment.bytes", segment_bytes)]
