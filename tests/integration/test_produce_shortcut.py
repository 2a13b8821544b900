"""The shortcut for Produce answers as the handler does: see `ottla.broker.apis.produce.shortcut`.

The same request with an unknown tagged field goes to the handler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.model.errors import ErrorCode
from ottla.testing import Cluster, cluster
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
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


def frame_of(
    client: RawClient,
    topic: str,
    batches: list[tuple[int, Any]],
    *,
    version: int,
    acks: int = 1,
    transactional_id: str | None = None,
) -> bytes:
    """The encoded request without its size."""
    data = TopicProduceData(
        name=topic if version < 13 else "",
        partition_data=[PartitionProduceData(index=index, records=memoryview(records)) for index, records in batches],
    )
    if version >= 13:
        answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        data.topic_id = answer.topics[0].topic_id
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=5_000, topic_data=[data])
    return b"".join(bytes(part) for part in request_parts(PRODUCE, version, 7, "quick", request))[4:]  # type: ignore[arg-type]


def answer_to(client: RawClient, frame: bytes) -> bytes:
    client.socket.sendall(len(frame).to_bytes(4, "big") + frame)
    return client.receive_frame()


def both_answers(
    client: RawClient, batches: list[tuple[int, Any]], *, version: int, acks: int = 1, label: str = "q"
) -> list[bytes]:
    """The answers of the shortcut and of the handler: two per path, with a separate topic for each path."""
    answers = []
    for tags in (NO_TAGS, A_TAG):
        topic = create_topic(client, partitions=3, name=f"{label}-{version}-{acks}-{len(tags)}-{len(batches)}")
        frame = frame_of(client, topic, batches, version=version, acks=acks)
        assert frame.endswith(NO_TAGS)
        received = [answer_to(client, frame[:-1] + tags) for _ in range(2)]
        # Only the topic differs, and both topics have the same length.
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
    assert [values(partition.records) for partition in partitions] == [["b" * 20_000], ["a"]]


@pytest.mark.parametrize("version", [12, 13])
def test_a_batch_that_is_refused_is_answered_beside_those_that_are_not(client: RawClient, version: int) -> None:
    damaged = batch("spoilt")
    damaged[-1] ^= 1
    batches = [(0, batch("a")), (1, damaged), (2, batch("b"))]
    quick, usual = both_answers(client, batches, version=version)
    assert quick == usual
    topic = f"q-{version}-1-1-3"
    partitions = client.call(fetch_request(topic, {0: 0, 1: 0, 2: 0}), 12).responses[0].partitions
    # Every batch is stored once per send: the batches before and behind the refused batch are not written twice.
    assert [values(partition.records) for partition in partitions] == [["a", "a"], [], ["b", "b"]]


def test_a_duplicate_is_answered_with_its_first_offset(client: RawClient) -> None:
    numbered = batch("a", producer_id=1, producer_epoch=0, base_sequence=0)
    quick, usual = both_answers(client, [(0, numbered), (0, numbered)], version=11, label="twice")
    assert quick == usual


def test_unknown_partitions_are_the_usual_ways_business(client: RawClient) -> None:
    quick, usual = both_answers(
        client, [(0, batch("a")), (1, batch("a")), (2, batch("a")), (9, batch("a"))], version=10
    )
    assert quick == usual


def new_transactional_producer(client: RawClient, transactional_id: str) -> int:
    client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
    while True:
        answer = client.call(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 5)
        if answer.error_code == 0:
            assert answer.producer_epoch == 0
            return int(answer.producer_id)


def of_transaction(producer_id: int, sequence: int) -> bytearray:
    return batch("a", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def await_markers(client: RawClient, topic: str) -> None:
    """Waits for the markers of a transaction, which stays open in its partitions until they are written."""
    while True:
        partitions = client.call(fetch_request(topic, {0: 0, 1: 0}), 12).responses[0].partitions
        if all(partition.last_stable_offset == partition.high_watermark for partition in partitions):
            return


@pytest.mark.parametrize("version", [11, 12, 13])
@pytest.mark.parametrize("ends_between", [False, True])
def test_batches_of_a_transaction(client: RawClient, version: int, ends_between: bool) -> None:
    """The first batch, and a batch after the end, need the coordinator, so they take the usual path."""
    answers: list[list[tuple[int, int, int]]] = []
    for tags in (NO_TAGS, A_TAG):
        name = f"t-{version}-{ends_between}-{len(tags)}"
        producer_id = new_transactional_producer(client, name)
        create_topic(client, partitions=2, name=name)
        received = []
        for sequence in range(4):
            if ends_between and sequence == 2:
                ended = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=0, committed=True)
                client.call(ended, 5)
                await_markers(client, name)
            batches = [(index, of_transaction(producer_id, sequence)) for index in range(2)]
            frame = frame_of(client, name, batches, version=version, acks=-1, transactional_id=name)
            # Behind the correlation id.
            answer, _ = decode(ProduceResponse, memoryview(answer_to(client, frame[:-1] + tags)), version, 5)
            received += [
                (response.index, response.error_code, response.base_offset)
                for response in answer.responses[0].partition_responses
            ]
        answers.append(received)
    quick, usual = answers
    assert quick == usual
    written = [offset for index, _, offset in quick if index == 1]
    # In version 11 a client adds its partitions itself, which this client has not done.
    assert written == ([-1] * 4 if version == 11 else [0, 1, -1, -1] if ends_between else [0, 1, 2, 3])


def test_batches_of_two_producers_transactions(client: RawClient) -> None:
    producers = [new_transactional_producer(client, f"one-of-two-{number}") for number in range(2)]
    topic = create_topic(client, partitions=2)
    for index, producer_id in enumerate(producers):
        begun = [(index, of_transaction(producer_id, 0))]
        frame = frame_of(client, topic, begun, version=12, transactional_id=f"one-of-two-{index}")
        answer_to(client, frame)
    batches = [(index, of_transaction(producer_id, 1)) for index, producer_id in enumerate(producers)]
    frame = frame_of(client, topic, batches, version=12, transactional_id="one-of-two-0")
    quick, usual = (answer_to(client, frame[:-1] + tags) for tags in (NO_TAGS, A_TAG))
    assert quick == usual
    answer, _ = decode(ProduceResponse, memoryview(quick), 12, 5)
    codes = [response.error_code for response in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    # The same holds for batches of a transaction in a request without a transactional id.
    frame = frame_of(client, topic, batches[:1], version=12)
    quick, usual = (answer_to(client, frame[:-1] + tags) for tags in (NO_TAGS, A_TAG))
    assert quick == usual
    partitions = client.call(fetch_request(topic, {0: 0, 1: 0}), 12).responses[0].partitions
    assert [values(partition.records) for partition in partitions] == [["a"], ["a"]]


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
