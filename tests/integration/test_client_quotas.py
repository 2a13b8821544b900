"""Client quotas as clients see them: throttle times in answers, and connections that are muted for that time.

No test depends on the speed of this machine: the expected throttle time follows from the sent bytes and from the
elapsed time, which the test measures around the requests.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.testing import Cluster, cluster
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.integration.data_path import batch, create_topic, fetch_request, new_name, produce_request, values
from tests.support.all_brokers import until_all_know
from tests.support.raw_client import ConnectionClosed, RawClient

# The burst of a client: ten seconds' worth, which is all but one of the `quota.window.num` windows of a second.
BURST_SECONDS = 10
# Some effects need two requests in quick succession, which a busy machine may not manage at the first attempt.
ATTEMPTS_MAX = 20


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster(settings={"ottla.metrics.listener": "127.0.0.1:0"}) as started:
        yield started


@pytest.fixture
def admin(running: Cluster) -> Iterator[RawClient]:
    with RawClient(running.bootstrap, client_id="admin") as connected:
        yield connected


def alter(client: RawClient, entity: dict[str, str | None], quotas: dict[str, float | None]) -> None:
    entry = RequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )
    answer = client.call(AlterClientQuotasRequest(entries=[entry]), 1).entries[0]
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def described(client: RawClient) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    response = client.call(DescribeClientQuotasRequest(components=[], strict=False), 1)
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries
    }


@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_is_told_how_long_it_has_used_too_much(running: Cluster, admin: RawClient, acks: int) -> None:
    topic, client_id, limit = create_topic(admin), new_name("producer"), 50_000
    alter(admin, {"client-id": client_id}, {"producer_byte_rate": limit})
    request = produce_request(topic, batch("x" * 102_000), acks=acks)
    with RawClient(running.bootstrap, client_id=client_id) as client:
        size, used, started = len(bytes(batch("x" * 102_000))) + 1, 0, time.monotonic()
        throttled_ms = 0
        while not throttled_ms:
            answer = client.call(request, 9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            used += size
            throttled_ms = answer.throttle_time_ms
        passed = time.monotonic() - started
        # At most the time that follows from the bytes, and at least that time minus the time that has passed here.
        expected = used / limit - BURST_SECONDS
        assert expected * 1000 - passed * 1000 - 1 <= throttled_ms <= expected * 1000 + 20
        # The broker does not read from this connection for that time, but reads from the client's other connections.
        client.send(MetadataRequest(topics=[]), 12)
        with RawClient(running.bootstrap, client_id=client_id) as other_client:
            other_client.call(MetadataRequest(topics=[]), 12)
        client.receive()
        assert time.monotonic() - started >= throttled_ms / 1000 - 0.002


def test_without_acknowledgements_the_connection_is_muted_too(running: Cluster, admin: RawClient) -> None:
    topic, client_id = create_topic(admin), new_name("producer")
    alter(admin, {"client-id": client_id}, {"producer_byte_rate": 10_000})
    with RawClient(running.bootstrap, client_id=client_id) as client:
        started = time.monotonic()
        client.send(produce_request(topic, batch("x" * 102_000), acks=0), 9, answered=False)
        client.call(MetadataRequest(topics=[]), 12)
        assert time.monotonic() - started >= 0.15


@pytest.mark.parametrize("version", [11, 12, 17])
def test_a_fetch_that_is_too_much_is_empty_and_comes_again(running: Cluster, admin: RawClient, version: int) -> None:
    topic = create_topic(admin)
    for text in "ab":
        admin.call(produce_request(topic, batch(text * 5_000)), 9)
    topic_id = admin.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics[0].topic_id

    def request(offset: int) -> FetchRequest:
        fetch = fetch_request(topic, {0: offset}, max_bytes=6_000)
        fetch.topics[0].topic_id = topic_id if version >= 13 else Uuid.ZERO
        fetch.topics[0].topic = topic if version < 13 else ""
        return fetch

    for _ in range(ATTEMPTS_MAX):
        client_id = new_name("consumer")
        alter(admin, {"client-id": client_id}, {"consumer_byte_rate": 1_000})
        with RawClient(running.bootstrap, client_id=client_id) as client:
            first = client.call(request(0), version)
            assert values(first.responses[0].partitions[0].records) == ["a" * 5_000]
            assert first.throttle_time_ms == 0
            started = time.monotonic()
            # 5,100 bytes more are about 200 too many; a full request is answered without its partitions.
            throttled = client.call(request(1), version)
            assert throttled.error_code == ErrorCode.NONE
            if not throttled.throttle_time_ms:
                # The two requests were too far apart to exceed the quota.
                continue
            assert (throttled.responses, throttled.session_id) == ([], 0)
            assert throttled.throttle_time_ms <= 250
            again = client.call(request(1), version)
            assert time.monotonic() - started >= throttled.throttle_time_ms / 1000 - 0.002
            while not again.responses:
                # The request came so late that it exceeded the quota of the next second, too.
                again = client.call(request(1), version)
            assert values(again.responses[0].partitions[0].records) == ["b" * 5_000]
            return
    pytest.fail("it was never too much")


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MetadataRequest(topics=None), 12),
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4),
        (FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1, topics=[]), 12),
        (ListOffsetsRequest(replica_id=-1, topics=[]), 7),
        (FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4),
        (DescribeConfigsRequest(resources=[]), 4),
        (DescribeClusterRequest(), 1),
        (ListGroupsRequest(), 4),
        (DescribeClientQuotasRequest(components=[], strict=False), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_time_is_a_quota_too_for_every_kind_of_request(
    running: Cluster, admin: RawClient, request_: Any, version: int
) -> None:
    client_id = new_name("asker")
    alter(admin, {"client-id": client_id}, {"request_percentage": 0.000001})
    with RawClient(running.bootstrap, client_id=client_id) as client:
        assert 0 < client.call(request_, version).throttle_time_ms <= 1_000


def test_a_quota_that_is_gone_holds_no_more(running: Cluster, admin: RawClient) -> None:
    topic, client_id = create_topic(admin), new_name("producer")
    alter(admin, {"client-id": client_id}, {"producer_byte_rate": 100})
    with RawClient(running.bootstrap, client_id=client_id) as client:
        alter(admin, {"client-id": client_id}, {"producer_byte_rate": None})
        assert client.call(produce_request(topic, batch("x" * 102_000)), 9).throttle_time_ms == 0


def test_a_real_producer_is_throttled(running: Cluster, admin: RawClient) -> None:
    topic, client_id = create_topic(admin), new_name("confluent")
    limit = 100_000
    alter(admin, {"client-id": client_id}, {"producer_byte_rate": limit})
    throttle_times: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": running.bootstrap,
            "client.id": client_id,
            "linger.ms": 0,
            "batch.size": 60_000,
            "throttle_cb": lambda event: throttle_times.append(event.throttle_time),
        }
    )
    size, count = 50_000, 22
    for _ in range(count):
        producer.produce(topic, b"x" * size)
        producer.poll(0)
    assert producer.flush(30) == 0
    producer.poll(0)
    # Ten seconds' worth are free; the bytes beyond take the time that the quota allows.
    assert 0 < max(throttle_times) <= count * (size + 200) / limit - BURST_SECONDS


def test_a_real_consumer_gets_everything_within_its_quota(running: Cluster, admin: RawClient) -> None:
    topic = create_topic(admin)
    for _ in range(21):
        admin.call(produce_request(topic, batch("x" * 50_000)), 9)
    throttle_times: list[float] = []
    for _ in range(ATTEMPTS_MAX):
        client_id = new_name("confluent")
        alter(admin, {"client-id": client_id}, {"consumer_byte_rate": 100_000})
        consumer = Consumer(
            {
                "bootstrap.servers": running.bootstrap,
                "client.id": client_id,
                "group.id": client_id,
                "auto.offset.reset": "earliest",
                "throttle_cb": lambda event: throttle_times.append(event.throttle_time),
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        for _ in range(21):
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
        consumer.close()
        if throttle_times:
            break
    # Five percent more than the burst; if the machine stood still in between, only the next attempt exceeds it.
    assert 0 < max(throttle_times) < 1


def new_topic(partitions: int) -> CreatableTopic:
    return CreatableTopic(name=new_name("mutated"), num_partitions=partitions, replication_factor=1)


def test_changes_of_topics_are_refused_for_a_while(running: Cluster, admin: RawClient) -> None:
    client_id = new_name("maker")
    alter(admin, {"client-id": client_id}, {"controller_mutation_rate": 10})
    with RawClient(running.bootstrap, client_id=client_id) as client:
        # The bucket holds 110 tokens and may be overdrawn: for three seconds there are none.
        first, second = new_topic(60), new_topic(80)
        assert client.call(CreateTopicsRequest(topics=[first, second]), 7).throttle_time_ms == 0
        started = time.monotonic()
        refused = client.call(CreateTopicsRequest(topics=[new_topic(1)]), 7)
        assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 0 < refused.throttle_time_ms <= 3_000
        deleted = client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=first.name)]), 6)
        assert time.monotonic() - started >= refused.throttle_time_ms / 1000 - 0.002
        assert deleted.responses[0].error_code == ErrorCode.NONE
        extension = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=second.name, count=81, assignments=None)]
        )
        answer = client.call(extension, 3)
        assert answer.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_older_requests_are_let_through_and_throttled(running: Cluster, admin: RawClient) -> None:
    client_id = new_name("maker")
    alter(admin, {"client-id": client_id}, {"controller_mutation_rate": 1_000})
    with RawClient(running.bootstrap, client_id=client_id) as client:
        alter(admin, {"client-id": client_id}, {"controller_mutation_rate": 20})
        # The bucket holds 220 tokens, and more come in meanwhile.
        answers = [client.call(CreateTopicsRequest(topics=[new_topic(45)]), 5)]
        assert answers[0].throttle_time_ms == 0
        while not answers[-1].throttle_time_ms:
            answers.append(client.call(CreateTopicsRequest(topics=[new_topic(45)]), 5))
        assert len(answers) >= 5
        assert {answer.topics[0].error_code for answer in answers} == {ErrorCode.NONE}


def test_an_address_that_connects_too_often_is_cut_off(running: Cluster, admin: RawClient) -> None:
    alter(admin, {"ip": "127.0.0.1"}, {"connection_creation_rate": 1})
    clients = []
    try:
        for _ in range(BURST_SECONDS):
            clients.append(RawClient(running.bootstrap))
            clients[-1].call(MetadataRequest(topics=[]), 12)
        # The broker holds an excess connection until the second ends, so that its client does not reconnect at once.
        assert any(held_seconds(running.bootstrap) > 0.1 for _ in range(3))
    finally:
        alter(admin, {"ip": "127.0.0.1"}, {"connection_creation_rate": None})
        for client in clients:
            client.close()
    with RawClient(running.bootstrap) as client:
        client.call(MetadataRequest(topics=[]), 12)


def held_seconds(bootstrap: str) -> float:
    """How long the broker holds a connection that exceeds the rate."""
    started = time.monotonic()
    with RawClient(bootstrap) as late, pytest.raises((ConnectionClosed, ConnectionError)):
        late.call(MetadataRequest(topics=[]), 12)
    return time.monotonic() - started


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Cluster]:
    with cluster(nodes=3) as started:
        yield started


def test_each_broker_counts_for_itself(three_nodes: Cluster) -> None:
    with RawClient(three_nodes.bootstrap, client_id="admin") as admin:
        topic = create_topic(admin, partitions=3)
        alter(admin, {"client-id": "spread"}, {"producer_byte_rate": 10_000})
        leaders: dict[int, int] = {}
        while len(set(leaders.values())) < 3 or -1 in leaders.values():
            metadata = admin.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics[0]
            leaders = {partition.partition_index: partition.leader_id for partition in metadata.partitions}
    # A broker that has not replayed the quota yet does not enforce it.
    until_all_know([node.address for node in three_nodes.nodes])
    for index, leader in leaders.items():
        address = three_nodes.node(leader).address
        with RawClient(address, client_id="spread") as client, RawClient(address, client_id="spread") as other_client:
            # Ninety percent of the burst, and again.
            first = accepted(client, produce_request(topic, batch("x" * 90_000), index=index))
            second = accepted(other_client, produce_request(topic, batch("x" * 90_000), index=index))
            assert first.throttle_time_ms == 0
            assert second.throttle_time_ms > 0


def accepted(client: RawClient, request: ProduceRequest) -> ProduceResponse:
    """Repeats the request until the broker accepts it as the leader; it then knows the quotas, too."""
    while True:
        answer: ProduceResponse = client.call(request, 9)
        if answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
            return answer


def test_the_controller_counts_requests_to_any_broker(three_nodes: Cluster) -> None:
    clients = [RawClient(node.address, client_id="maker") for node in three_nodes.nodes]
    try:
        alter(clients[1], {"client-id": "maker"}, {"controller_mutation_rate": 1})
        # Overdrawn so far that the bucket is still empty when the other brokers are asked.
        clients[0].call(CreateTopicsRequest(topics=[new_topic(30)]), 7)
        for client in clients[1:]:
            refused = client.call(CreateTopicsRequest(topics=[new_topic(1)]), 7)
            assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert 0 < refused.throttle_time_ms <= 19_000
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        (
            ["producer_byte_rate", "consumer_byte_rate", "request_percentage"],
            ["consumer_byte_rate", "request_percentage", "producer_byte_rate"],
        ),
        (
            ["producer_byte_rate", "controller_mutation_rate", "consumer_byte_rate"],
            ["consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate"],
        ),
        (
            ["request_percentage", "controller_mutation_rate", "consumer_byte_rate", "producer_byte_rate"],
            ["producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate", "request_percentage"],
        ),
    ],
)
def test_the_quotas_of_an_entity_have_the_order_of_apache_kafka(
    admin: RawClient, quotas: list[str], expected: list[str]
) -> None:
    client_id = new_name("ordered")
    alter(admin, {"client-id": client_id}, dict.fromkeys(quotas, 1_000))
    assert list(described(admin)[(("client-id", client_id),)]) == expected


def test_quotas_outlive_the_node() -> None:
    with cluster() as started:
        (node,) = started.nodes
        with RawClient(node.address) as client:
            alter(client, {"client-id": None}, {"producer_byte_rate": 1_000})
            alter(client, {"user": "alice", "client-id": None}, {"consumer_byte_rate": 1_000_000})
        node.stop()
        node.start()
        with RawClient(node.address) as client:
            assert described(client) == {
                (("client-id", None),): {"producer_byte_rate": 1_000.0},
                (("client-id", None), ("user", "alice")): {"consumer_byte_rate": 1_000_000.0},
            }
            # The quotas hold again, too.
            topic = create_topic(client)
            assert client.call(produce_request(topic, batch("x" * 11_000)), 9).throttle_time_ms > 0


def test_metrics_tell_who_uses_what_and_who_is_throttled(running: Cluster, admin: RawClient) -> None:
    topic, client_id = create_topic(admin), new_name("metered")
    alter(admin, {"client-id": client_id}, {"producer_byte_rate": 10_000, "consumer_byte_rate": 1_000_000})
    with RawClient(running.bootstrap, client_id=client_id) as client:
        throttled_ms = client.call(produce_request(topic, batch("x" * 101_000)), 9).throttle_time_ms
        assert throttled_ms > 0
        client.call(fetch_request(topic, {0: 0}), 11)
    url = running.node(1).metrics_url
    assert url is not None
    with urllib.request.urlopen(url, timeout=20) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    metrics = {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if sample.labels == {"client_id": client_id}
    }
    assert set(metrics) == {
        "kafka_server_produce_byte_rate",
        "kafka_server_produce_throttle_time",
        "kafka_server_fetch_byte_rate",
        "kafka_server_fetch_throttle_time",
    }
    assert metrics["kafka_server_produce_byte_rate"] > 0
    assert metrics["kafka_server_fetch_byte_rate"] > 0
    assert metrics["kafka_server_produce_throttle_time"] == throttled_ms
    assert metrics["kafka_server_fetch_throttle_time"] == 0
    (phase,) = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "kafka_network_requestmetrics_throttletimems_sum" and sample.labels == {"request": "Produce"}
    ]
    assert phase >= throttled_ms


def test_a_filter_finds_what_it_names(running: Cluster, admin: RawClient) -> None:
    user = new_name("user")
    alter(admin, {"user": user, "client-id": None}, {"request_percentage": 12.5})
    alter(admin, {"user": user}, {"request_percentage": 50.0})

    def quota_values(*components: tuple[str, int, str | None], strict: bool) -> list[float]:
        request = DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=kind, match_type=match_type, match=name)
                for kind, match_type, name in components
            ],
            strict=strict,
        )
        return sorted(entry.values[0].value for entry in admin.call(request, 0).entries)

    assert quota_values(("user", 0, user), strict=False) == [12.5, 50.0]
    assert quota_values(("user", 0, user), strict=True) == [50.0]
    assert quota_values(("user", 0, user), ("client-id", 1, None), strict=True) == [12.5]
    assert quota_values(("user", 0, user), ("client-id", 2, None), strict=False) == [12.5]
    assert quota_values(("user", 0, user), ("client-id", 0, "x"), strict=False) == []
    refused = admin.call(
        DescribeClientQuotasRequest(components=[ComponentData(entity_type="planet", match_type=2, match=None)]), 1
    )
    assert (refused.error_code, refused.entries) == (ErrorCode.UNSUPPORTED_VERSION, None)
