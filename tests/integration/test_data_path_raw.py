"""The data path over a real socket, request by request."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator

import pytest

from ottla.model.errors import ErrorCode
from ottla.records.compression import Codec
from ottla.testing import Cluster, cluster
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.integration.data_path import batch, create_topic, fetch_request, produce_request, values
from tests.support.raw_client import ConnectionClosed, RawClient

# The maximum wait of a fetch that must end by another event.
WITHOUT_END_MS = 2**31 - 1


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as started:
        yield started


@pytest.fixture
def client(running: Cluster) -> Iterator[RawClient]:
    with RawClient(running.bootstrap) as connected:
        yield connected


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_in_every_version_with_names(client: RawClient, version: int) -> None:
    topic = create_topic(client)
    for offset in range(2):
        answer = client.call(produce_request(topic, batch("a")), version).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, offset)


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_in_every_version_with_names(client: RawClient, version: int) -> None:
    topic = create_topic(client)
    client.call(produce_request(topic, batch("a", "b")), 9)
    data = client.call(fetch_request(topic, {0: 0}), version).responses[0].partitions[0]
    assert (data.error_code, data.high_watermark, values(data.records)) == (0, 2, ["a", "b"])


def test_what_is_fetched_is_what_was_produced(client: RawClient) -> None:
    """Disk format is wire format: only base offset and leader epoch, which lie outside the checksum, differ."""
    topic = create_topic(client)
    sent = batch("a", "b", codec=Codec.ZSTD)
    client.call(produce_request(topic, sent), 9)
    received = bytes(client.call(fetch_request(topic, {0: 0}), 12).responses[0].partitions[0].records)
    assert received[16:] == bytes(sent)[16:]


def test_what_is_stored_is_what_is_sent(running: Cluster, client: RawClient) -> None:
    topic = create_topic(client)
    sent = batch("a", "b", codec=Codec.GZIP)
    client.call(produce_request(topic, sent), 9)
    received = bytes(client.call(fetch_request(topic, {0: 0}), 12).responses[0].partitions[0].records)
    (segment,) = running.data.glob(f"**/{topic}-0/00000000000000000000.log")
    assert segment.read_bytes() == received


def test_a_reader_that_stops_does_not_stop_the_writer(running: Cluster, client: RawClient) -> None:
    topic = create_topic(client)
    large = bytes(batch("x" * 500_000))
    for _ in range(20):
        client.call(produce_request(topic, large), 9)
    with RawClient(running.bootstrap) as lazy:
        for _ in range(4):
            # The requests ask for far more bytes than the socket's buffers hold, and the client reads none of them.
            request = fetch_request(topic, {0: 0}, max_bytes=50_000_000, partition_max_bytes=50_000_000)
            lazy.send(request, 12)
        answer = client.call(produce_request(topic, batch("a")), 9).responses[0].partition_responses[0]
        assert answer.base_offset == 20
        assert len(values(lazy.receive().responses[0].partitions[0].records)) >= 20


def test_pipelined_requests_are_answered_in_order(client: RawClient) -> None:
    topic = create_topic(client)
    for text in "abc":
        client.send(produce_request(topic, batch(text)), 9)
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=5_000), 12)
    assert [client.receive().responses[0].partition_responses[0].base_offset for _ in range(3)] == [0, 1, 2]
    assert values(client.receive().responses[0].partitions[0].records) == ["a", "b", "c"]


def test_a_request_behind_a_waiting_fetch_sees_at_least_what_the_fetch_showed(
    running: Cluster, client: RawClient
) -> None:
    topic = create_topic(client)
    latest = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=WITHOUT_END_MS), 12)
    client.send(ListOffsetsRequest(topics=[latest]), 7)
    with RawClient(running.bootstrap) as other:
        assert_waits(client, other)
        other.call(produce_request(topic, batch("a")), 9)
    assert client.receive().responses[0].partitions[0].high_watermark == 1
    assert client.receive().topics[0].partitions[0].offset == 1


def test_a_produce_request_behind_a_waiting_fetch_is_appended_when_its_turn_has_come(client: RawClient) -> None:
    """As in Kafka: a client that wants to produce while it waits uses another connection."""
    topic = create_topic(client)
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=100), 12)
    client.send(produce_request(topic, batch("a")), 9)
    fetched = client.receive().responses[0].partitions[0]
    assert (fetched.high_watermark, values(fetched.records)) == (0, [])
    assert client.receive().responses[0].partition_responses[0].base_offset == 0


def test_acks_zero_is_not_answered(client: RawClient) -> None:
    topic = create_topic(client)
    client.send(produce_request(topic, batch("a"), acks=0), 9, answered=False)
    assert client.call(produce_request(topic, batch("b")), 9).responses[0].partition_responses[0].base_offset == 1


def test_acks_zero_with_an_error_closes_the_connection(client: RawClient) -> None:
    client.send(produce_request("no-such-topic", batch("a"), acks=0), 9, answered=False)
    with pytest.raises(ConnectionClosed):
        client.receive_frame()


def test_old_formats_are_refused_where_the_version_forbids_them(client: RawClient) -> None:
    topic = create_topic(client)
    old_batch = batch("a")
    old_batch[16] = 1
    answer = client.call(produce_request(topic, old_batch), 9).responses[0].partition_responses[0]
    assert answer.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


def assert_waits(client: RawClient, other: RawClient) -> None:
    """Asserts that the client has no answer. The answer to `other` shows that the node has read both requests."""
    other.call(ApiVersionsRequest(), 0)
    assert select.select([client.socket], [], [], 0)[0] == []


def test_a_long_poll_ends_with_the_append(running: Cluster, client: RawClient) -> None:
    topic = create_topic(client)
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=WITHOUT_END_MS), 12)
    with RawClient(running.bootstrap) as other:
        assert_waits(client, other)
        other.call(produce_request(topic, batch("a")), 9)
    assert values(client.receive().responses[0].partitions[0].records) == ["a"]


def test_a_long_poll_ends_with_its_time(client: RawClient) -> None:
    topic = create_topic(client)
    started = time.monotonic()
    data = client.call(fetch_request(topic, {0: 0}, max_wait_ms=200), 12).responses[0].partitions[0]
    assert values(data.records) == []
    # The poll must not end early. Tests in virtual time check that it does not end late.
    assert time.monotonic() - started > 0.19


def test_a_long_poll_on_a_deleted_topic_ends_at_once(running: Cluster, client: RawClient) -> None:
    topic = create_topic(client)
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=WITHOUT_END_MS), 12)
    with RawClient(running.bootstrap) as other:
        assert_waits(client, other)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5_000)
        assert other.call(request, 6).responses[0].error_code == 0
    assert client.receive().responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_limits_and_the_first_batch(client: RawClient) -> None:
    topic = create_topic(client, partitions=2)
    for index in range(2):
        for _ in range(3):
            client.call(produce_request(topic, batch("x" * 10_000), index=index), 9)
    response = client.call(fetch_request(topic, {0: 0, 1: 0}, max_bytes=100), 12)
    sizes = {data.partition_index: len(values(data.records)) for data in response.responses[0].partitions}
    assert sizes == {0: 1, 1: 0}
    response = client.call(fetch_request(topic, {0: 0, 1: 0}, partition_max_bytes=25_000), 12)
    sizes = {data.partition_index: len(values(data.records)) for data in response.responses[0].partitions}
    assert sizes == {0: 2, 1: 2}


def test_an_incremental_session(client: RawClient) -> None:
    topic = create_topic(client, partitions=2)
    opened = client.call(fetch_request(topic, {0: 0, 1: 0}, session_id=0, session_epoch=0), 12)
    assert opened.session_id > 0
    client.call(produce_request(topic, batch("a"), index=1), 9)
    again = client.call(
        FetchRequest(session_id=opened.session_id, session_epoch=1, min_bytes=1, max_bytes=1 << 20, topics=[]), 12
    )
    assert [(data.partition_index, values(data.records)) for data in again.responses[0].partitions] == [(1, ["a"])]


def test_what_is_nowhere_cannot_be_moved(client: RawClient) -> None:
    path = client.call(DescribeLogDirsRequest(topics=[]), 4).results[0].log_dir
    nowhere = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="nowhere", partitions=[0])])
    answer = client.call(AlterReplicaLogDirsRequest(dirs=[nowhere]), 2)
    assert answer.results[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_and_delete_records(client: RawClient) -> None:
    topic = create_topic(client)
    for start in (0, 100, 50):
        client.call(produce_request(topic, batch("a", "b", timestamp=1_700_000_000_000 + start)), 9)

    def offset(timestamp: int) -> int:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
        answer = client.call(request, 11).topics[0].partitions[0]
        assert answer.error_code == 0
        listed_offset: int = answer.offset
        return listed_offset

    assert [offset(timestamp) for timestamp in (-2, -1, -3, -4, -5, -6)] == [0, 6, 3, 0, -1, -1]
    assert [offset(1_700_000_000_000 + after) for after in (0, 2, 101, 102)] == [0, 2, 3, -1]
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
    answer = client.call(DeleteRecordsRequest(topics=[wanted], timeout_ms=5_000), 2).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, 4)
    assert offset(-2) == 4
    data = client.call(fetch_request(topic, {0: 3}), 12).responses[0].partitions[0]
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_idempotence_over_a_restart_and_a_crash() -> None:
    def sequenced(sequence: int) -> bytearray:
        # Producers expire by the timestamp of their last record, so this timestamp must be current.
        now_ms = int(time.time() * 1000)
        return batch("a", timestamp=now_ms, producer_id=77, producer_epoch=0, base_sequence=sequence)

    with cluster() as started:
        with RawClient(started.bootstrap) as client:
            topic = create_topic(client)
            for sequence in range(3):
                client.call(produce_request(topic, sequenced(sequence), acks=-1), 9)
        for end in ("stop", "kill"):
            node = started.node(1)
            getattr(node, end)()
            node.start()
            with RawClient(started.bootstrap) as client:
                request = produce_request(topic, sequenced(2), acks=-1)
                answer = client.call(request, 9).responses[0].partition_responses[0]
                assert (answer.error_code, answer.base_offset) == (0, 2), end
                request = produce_request(topic, sequenced(9), acks=-1)
                answer = client.call(request, 9).responses[0].partition_responses[0]
                assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, end
