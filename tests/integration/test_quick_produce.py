"""A produce request of the usual shape is answered as any other: see `ottla.broker.quick_produce`.

The same request with a tagged field that nobody knows is not of that shape, and goes the usual way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.testing import Cluster, cluster
from ottla.wire.framing import request_parts
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.integration.data_path import batch, create_topic, fetch_request, values
from tests.support.raw_client import ConnectionClosed, RawClient

PRODUCE = 0
NO_TAGS, A_TAG = b"\x00", b"\x01\x63\x01x"


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as started:
        yield started


@pytest.fixture
def client(running: Cluster) -> Iterator[RawClient]:
    with RawClient(running.bootstrap) as connected:
        yield connected


def frame_of(client: RawClient, topic: str, batches: list[tuple[int, Any]], *, version: int, acks: int = 1) -> bytes:
    """The request without its size."""
    data = TopicProduceData(
        name=topic if version < 13 else "",
        partition_data=[PartitionProduceData(index=index, records=memoryview(records)) for index, records in batches],
    )
    if version >= 13:
        found = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        data.topic_id = found.topics[0].topic_id
    request = ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[data])
    return b"".join(bytes(part) for part in request_parts(PRODUCE, version, 7, "quick", request))[4:]  # type: ignore[arg-type]


def answer_to(client: RawClient, frame: bytes) -> bytes:
    client.socket.sendall(len(frame).to_bytes(4, "big") + frame)
    return client.receive_frame()


def both_answers(
    client: RawClient, batches: list[tuple[int, Any]], *, version: int, acks: int = 1, label: str = "q"
) -> list[bytes]:
    """What is answered on the quick way and on the usual one, each asked twice of a topic of its own."""
    answers = []
    for tags in (NO_TAGS, A_TAG):
        topic = create_topic(client, partitions=3, name=f"{label}-{version}-{acks}-{len(tags)}-{len(batches)}")
        frame = frame_of(client, topic, batches, version=version, acks=acks)
        assert frame.endswith(NO_TAGS)
        received = [answer_to(client, frame[:-1] + tags) for _ in range(2)]
        # The topic is the one thing that differs, and has the same length in both.
        answers.append(b"".join(received).replace(topic.encode(), b"topic"))
        if version >= 13:
            start = frame.index(b"\x02", 20) + 1
            answers[-1] = answers[-1].replace(frame[start : start + 16], b"topic")
    return answers


@pytest.mark.parametrize("version", range(9, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_the_answer_is_the_same(client: RawClient, version: int, acks: int) -> None:
    quick, usual = both_answers(client, [(0, batch("a")), (2, batch("b", "c"))], version=version, acks=acks)
    assert quick == usual


def test_what_was_sent_is_there(client: RawClient) -> None:
    topic = create_topic(client, partitions=2)
    answer_to(client, frame_of(client, topic, [(1, batch("a")), (0, batch("b" * 20_000))], version=12))
    partitions = client.call(fetch_request(topic, {0: 0, 1: 0}), 12).responses[0].partitions
    assert [values(each.records) for each in partitions] == [["b" * 20_000], ["a"]]


@pytest.mark.parametrize("version", [12, 13])
def test_a_batch_that_is_refused_is_answered_beside_those_that_are_not(client: RawClient, version: int) -> None:
    damaged = batch("spoilt")
    damaged[-1] ^= 1
    batches = [(0, batch("a")), (1, damaged), (2, batch("b"))]
    quick, usual = both_answers(client, batches, version=version)
    assert quick == usual
    topic = f"q-{version}-1-1-3"
    partitions = client.call(fetch_request(topic, {0: 0, 1: 0, 2: 0}), 12).responses[0].partitions
    # Each batch once for each time it was sent: those before and behind the refused one are not written twice.
    assert [values(each.records) for each in partitions] == [["a", "a"], [], ["b", "b"]]


def test_a_duplicate_is_answered_with_its_first_offset(client: RawClient) -> None:
    numbered = batch("a", producer_id=1, producer_epoch=0, base_sequence=0)
    quick, usual = both_answers(client, [(0, numbered), (0, numbered)], version=11, label="twice")
    assert quick == usual


def test_unknown_partitions_are_the_usual_ways_business(client: RawClient) -> None:
    quick, usual = both_answers(
        client, [(0, batch("a")), (1, batch("a")), (2, batch("a")), (9, batch("a"))], version=10
    )
    assert quick == usual


@pytest.mark.parametrize("cut", [1, 2, 3, 20, 60, 100])
def test_a_frame_that_ends_too_early_costs_its_connection(running: Cluster, cut: int) -> None:
    with RawClient(running.bootstrap) as client:
        topic = create_topic(client)
        frame = frame_of(client, topic, [(0, batch("a" * 200))], version=12)
        with pytest.raises(ConnectionClosed):
            answer_to(client, frame[:-cut])
    with RawClient(running.bootstrap) as client:
        assert not client.call(fetch_request(topic, {0: 0}), 12).responses[0].partitions[0].records


def test_a_size_without_end_costs_its_connection(running: Cluster) -> None:
    with RawClient(running.bootstrap) as client:
        topic = create_topic(client)
        records = batch("a" * 200)
        frame = frame_of(client, topic, [(0, records)], version=12)
        start = frame.index(bytes(records)) - 2
        with pytest.raises(ConnectionClosed):
            answer_to(client, frame[:start] + b"\xff" * 100_000)
