"""Clients without rights that try to stop a node, while an honest client is served."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

import ottla.testing
from ottla.model.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.hostile import Siege, create, measured_turns
from tests.support.raw_client import ConnectionClosed, RawClient

pytestmark = pytest.mark.faults

MIB = 1024 * 1024
BROKER = 4
OFFSETS = 5_000
GROUPS = 3_000
TAGGED_FRAME_BYTES = 50_000_000


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    settings = {"ottla.metrics.listener": "127.0.0.1:0"}
    with measured_turns(), ottla.testing.cluster(settings=settings) as cluster:
        create(cluster.bootstrap, "wide", OFFSETS)
        with RawClient(cluster.bootstrap) as client:
            while client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code:
                pass
            while commit(client, "g", OFFSETS).topics[0].partitions[0].error_code:
                pass
            for number in range(GROUPS):
                commit(client, f"listed-{number}", 1)
        yield cluster


def commit(client: RawClient, group: str, count: int, *, version: int = 8, retention_time_ms: int = -1) -> Message:
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(count)]
    topics = [OffsetCommitRequestTopic(name="wide", partitions=partitions)]
    request = OffsetCommitRequest(group_id=group, topics=topics, retention_time_ms=retention_time_ms)
    answer: Message = client.call(request, version)
    return answer


def address(cluster: ottla.testing.Cluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.partition(":")
    return host, int(port)


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def topics_of_transaction(count: int) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=f"n{number}", partitions=[0]) for number in range(count)]
    return AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)


def produce_to(count: int) -> ProduceRequest:
    data = [TopicProduceData(name=name, partition_data=[PartitionProduceData()]) for name in names(count)]
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)


def commit_of(count: int, *, partitions: int = 1) -> OffsetCommitRequest:
    offsets = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(partitions)]
    topics = [OffsetCommitRequestTopic(name="wide", partitions=offsets)] * count
    return OffsetCommitRequest(group_id="g", topics=topics)


ARRAYS: dict[str, tuple[Callable[[], Message], int]] = {
    "DescribeConfigs of one broker, 15,000 times": (
        lambda: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)]
            * 15_000
        ),
        4,
    ),
    "OffsetFetch of one group, 100 times": (
        lambda: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)] * 100),
        8,
    ),
    "DescribeGroups of one group, 100,000 times": (lambda: DescribeGroupsRequest(groups=["g"] * 100_000), 5),
    "DescribeGroups of 100,000 groups": (lambda: DescribeGroupsRequest(groups=names(100_000)), 5),
    "DeleteGroups of 100,000 groups": (lambda: DeleteGroupsRequest(groups_names=names(100_000)), 2),
    "ListGroups with 1,000,000 filters": (lambda: ListGroupsRequest(states_filter=["s"] * 1_000_000), 4),
    "ConsumerGroupDescribe of 300,000 groups": (lambda: ConsumerGroupDescribeRequest(group_ids=names(300_000)), 1),
    "DescribeTransactions of 300,000 ids": (lambda: DescribeTransactionsRequest(transactional_ids=names(300_000)), 0),
    "FindCoordinator of 300,000 keys": (lambda: FindCoordinatorRequest(coordinator_keys=names(300_000)), 4),
    "AddPartitionsToTxn with 100,000 topics": (lambda: topics_of_transaction(100_000), 3),
    "Produce to 100,000 topics": (lambda: produce_to(100_000), 12),
    "OffsetCommit with 100,000 topics": (lambda: commit_of(100_000), 8),
    "OffsetCommit with 12,000 partitions": (lambda: commit_of(1, partitions=11_999), 8),
    "ListGroups of 3,000 groups": (ListGroupsRequest, 4),
    "DescribeLogDirs of 5,000 replicas": (lambda: DescribeLogDirsRequest(topics=None), 4),
    "DeleteTopics of 100,000 topics": (lambda: DeleteTopicsRequest(topic_names=names(100_000), timeout_ms=1000), 5),
}


@pytest.mark.parametrize("attack", ARRAYS)
def test_repeated_names_and_giant_arrays(nodes: ottla.testing.Cluster, attack: str) -> None:
    """The node answers, or closes the connection. It serves the honest client meanwhile."""
    make, version = ARRAYS[attack]
    request = make()
    with Siege(attack, nodes), RawClient(nodes.bootstrap, timeout_seconds=120) as client:
        client.send(request, version)
        # The request may be refused as too much work.
        with suppress(ConnectionClosed):
            client.receive_frame()


def test_tagged_fields(nodes: ottla.testing.Cluster) -> None:
    """A Metadata request with as many unknown tagged fields as fit into 50 MB."""
    header = struct.pack(">hhih", 3, 12, 1, -1) + b"\0"
    body = b"\1\1\0"
    count = (TAGGED_FRAME_BYTES - 100) // 4
    # Numbers that grow by one, written with three bytes, and no content.
    tags = b"".join(
        bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14 & 0x7F, 0))
        for number in range(1 << 14, (1 << 14) + min(count, 1 << 20))
    )
    frame = header + body + varint(len(tags) // 4) + tags
    with Siege("1,000,000 tagged fields", nodes), socket.create_connection(address(nodes), timeout=120) as connected:
        try:
            connected.sendall(struct.pack(">i", len(frame)) + frame)
            connected.recv(4)
        except OSError:
            # The node has closed the connection.
            pass


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def test_half_sent_requests_of_many_connections(nodes: ottla.testing.Cluster) -> None:
    """The requests stay within the common bound, and a large request of an honest client is completed."""
    with Siege("300 half-sent requests of 20 MB", nodes, memory_bytes_max=600 * MIB), ExitStack() as opened:
        for _ in range(300):
            connected = opened.enter_context(socket.create_connection(address(nodes)))
            connected.settimeout(0.05)
            try:
                connected.sendall(struct.pack(">i", 20_000_000) + bytes(9 * MIB))
            except OSError:
                # The node does not read on, or has closed the connection of a slow sender.
                continue
        with RawClient(nodes.bootstrap, timeout_seconds=120) as client:
            # More than 64 KiB, which is what every connection may hold.
            answer = client.call(FindCoordinatorRequest(coordinator_keys=names(50_000)), 4)
            assert len(answer.coordinators) == 50_000


def test_half_sent_http_requests(nodes: ottla.testing.Cluster) -> None:
    """A scrape is answered while 3,000 requests are half sent."""
    url = nodes.node(1).metrics_url
    assert url is not None
    host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
    with Siege("3,000 half-sent HTTP requests", nodes), ExitStack() as opened:
        for _ in range(900):
            connected = opened.enter_context(socket.create_connection((host, int(port)), timeout=30))
            connected.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        for _ in range(2_100):
            with socket.create_connection((host, int(port)), timeout=30) as connected:
                connected.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.status == 200


def test_scrapes_of_many_partitions(nodes: ottla.testing.Cluster) -> None:
    url = nodes.node(1).metrics_url
    assert url is not None
    with Siege(f"five scrapes of {OFFSETS} partitions", nodes):
        for _ in range(5):
            with urllib.request.urlopen(url, timeout=120) as answer:
                assert answer.status == 200
                assert answer.read().count(b"kafka_log_log_size{") >= OFFSETS


def test_tls_on_a_plaintext_port(nodes: ottla.testing.Cluster) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Siege("20 TLS handshakes", nodes):
        for _ in range(20):
            with socket.create_connection(address(nodes), timeout=60) as connected, pytest.raises(ssl.SSLError):
                context.wrap_socket(connected)
    assert "the client speaks TLS, but this listener does not" in nodes.node(1).output


def test_regular_expressions(nodes: ottla.testing.Cluster) -> None:
    """Each takes thousands of states for every character of a name. A usual expression is resolved meanwhile."""
    for number in range(20):
        create(nodes.bootstrap, f"{'a' * 200}-{number}")
    dear = ["(.?){1000}[^a]", "(a?){1000}b", "((a|b)*c?){500}d", ".*" * 1_500]
    with Siege("100 members with dear regular expressions", nodes), RawClient(nodes.bootstrap) as client:
        for number in range(100):
            beat(client, f"dear-{number % 7}", f"m{number}", f"{dear[number % len(dear)]}{number}")
        epoch = beat(client, "usual", "m", "wide|a+-1")
        while not (answer := client.call(heartbeat("usual", "m", None, epoch), 1)).assignment or not sum(
            len(topic.partitions) for topic in answer.assignment.topic_partitions
        ):
            epoch = answer.member_epoch
        for pattern in (*dear, "((){1000}){1000}", "a" * 30_000, "[" + "a-z" * 10_000 + "]"):
            client.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)


def heartbeat(group: str, member: str, regex: str | None, epoch: int = 0) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_regex=regex,
        topic_partitions=[] if epoch == 0 else None,
    )


def beat(client: RawClient, group: str, member: str, regex: str) -> int:
    while (answer := client.call(heartbeat(group, member, regex), 1)).error_code:
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, answer
    epoch: int = answer.member_epoch
    return epoch


def test_extreme_retention_times(nodes: ottla.testing.Cluster) -> None:
    with Siege("OffsetCommit with extreme retention times", nodes), RawClient(nodes.bootstrap) as client:
        for retention_ms in (2**63 - 1, 2**62, -(2**63), -2, 0):
            answer = commit(client, "g", 1, version=3, retention_time_ms=retention_ms)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]


def test_random_frames(nodes: ottla.testing.Cluster) -> None:
    generator = random.Random(7)
    with Siege("2,000 random frames", nodes):
        for _ in range(2_000):
            data = generator.randbytes(generator.randrange(8, 3_000))
            with socket.create_connection(address(nodes), timeout=60) as connected:
                try:
                    connected.sendall(struct.pack(">i", len(data)) + data)
                    connected.shutdown(socket.SHUT_WR)
                    connected.recv(100)
                except OSError:
                    continue
        with RawClient(nodes.bootstrap) as client:
            assert client.call(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
            assert client.call(MetadataRequest(topics=None), 12).topics
