"""The usual fetch of a follower in bytes: what is packed here is what the codec writes, and both read the same."""

from __future__ import annotations

import struct
from random import Random

import pytest

from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.follower_fetch import (
    VERSION,
    FetchedSlice,
    UsualRequest,
    WantedSlice,
    message_of,
    pack_request,
    pack_response,
    read_request,
    read_response,
)
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    PartitionData,
)

TOPICS = [bytes([number]) * 16 for number in (1, 2, 3)]
INT32, INT64 = 1 << 31, 1 << 63

# With a single partition, which has a way of its own.
SINGLE: UsualRequest = (1, 2, 3, 4, 5, 6, 7, [(TOPICS[0], [(0, 8, 9, 10, 11, 12)])])


def a_request(random: Random) -> UsualRequest:
    topics: list[tuple[bytes, list[WantedSlice]]] = [
        (
            topic,
            [
                (
                    random.randrange(INT32),
                    random.randrange(-1, INT32),
                    random.randrange(INT64),
                    random.randrange(-1, INT32),
                    random.randrange(-1, INT64),
                    random.randrange(INT32),
                )
                for _ in range(random.choice((0, 1, 3, 126)))
            ],
        )
        for topic in random.sample(TOPICS, random.randrange(4))
    ]
    numbers = [random.randrange(INT32) for _ in range(7)]
    return (*numbers, topics)  # type: ignore[return-value]


def some_slices(random: Random) -> list[FetchedSlice]:
    return [
        (
            topic,
            random.randrange(INT32),
            random.randrange(INT64),
            random.randrange(INT64),
            random.randrange(INT64),
            random.choice((None, bytes(random.choice((1, 126, 127, 128, 20_000))))),
        )
        for topic in sorted(random.choices(TOPICS, k=random.randrange(5)))
    ]


def as_message(session_id: int, slices: list[FetchedSlice]) -> FetchResponse:
    response = FetchResponse(session_id=session_id)
    for topic_id, index, high_watermark, last_stable_offset, log_start_offset, records in slices:
        if not response.responses or response.responses[-1].topic_id.bytes != topic_id:
            response.responses.append(FetchableTopicResponse(topic_id=Uuid(topic_id)))
        response.responses[-1].partitions.append(
            PartitionData(
                partition_index=index,
                high_watermark=high_watermark,
                last_stable_offset=last_stable_offset,
                log_start_offset=log_start_offset,
                aborted_transactions=None,
                records=records or b"",
            )
        )
    return response


@pytest.mark.parametrize("usual", [SINGLE, *(a_request(Random(seed)) for seed in range(20))])
def test_a_request_is_what_the_codec_writes(usual: UsualRequest) -> None:
    body = pack_request(usual)
    assert body == encode(message_of(usual), VERSION)
    assert read_request(memoryview(b"header" + body), 6) == usual


@pytest.mark.parametrize("size", [None, 1, 126, 127, 128, 16_382, 16_383, 20_000])
def test_a_single_partition_is_what_the_codec_writes(size: int | None) -> None:
    slices: list[FetchedSlice] = [(TOPICS[0], 1, 2, 3, 4, None if size is None else bytes(size))]
    (body,) = pack_response(7, slices)
    assert body == encode(as_message(7, slices), VERSION)


@pytest.mark.parametrize("seed", range(20))
def test_a_response_is_what_the_codec_writes(seed: int) -> None:
    random = Random(seed)
    slices = some_slices(random)
    body = b"".join(pack_response(7, slices))  # type: ignore[arg-type]
    assert body == encode(as_message(7, slices), VERSION)
    read = read_response(memoryview(b"header" + body), 6)
    assert read is not None
    assert read.session_id == 7
    assert [
        (piece.topic_id, piece.partition_index, piece.high_watermark, piece.log_start_offset, piece.records)
        for piece in read.slices
    ] == [(*piece[:3], *piece[4:]) for piece in slices]


class OnDisk:
    """A file with the records of one partition."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, position: int, length: int) -> bytes:
        return self.data[position : position + length]


@pytest.mark.parametrize("seed", range(20))
def test_records_in_a_file_are_a_part_of_their_own(seed: int) -> None:
    random = Random(seed)
    slices = some_slices(random)
    placed: list[FetchedSlice] = []
    for *place, records in slices:
        if records and random.random() < 0.5:
            records = FileRegion(OnDisk(bytes(records)), 0, len(records))  # type: ignore[arg-type]
        placed.append((*place, records))  # type: ignore[arg-type]
    parts = pack_response(7, placed)
    assert [part for part in parts if isinstance(part, FileRegion)] == [
        records for *_, records in placed if isinstance(records, FileRegion)
    ]
    body = b"".join(part.read() if isinstance(part, FileRegion) else part for part in parts)
    assert body == encode(as_message(7, slices), VERSION)


@pytest.mark.parametrize("usual", [SINGLE, a_request(Random(1))])
def test_requests_of_other_shapes_are_left_to_the_codec(usual: UsualRequest) -> None:
    for change in (
        {"isolation_level": 1},
        {"rack_id": "r"},
        {"cluster_id": "c"},
        {"forgotten_topics_data": [ForgottenTopic(topic_id=Uuid(TOPICS[0]), partitions=[1])]},
        {"replica_state": None},
    ):
        message = message_of(usual)
        for name, value in change.items():
            setattr(message, name, value)
        assert read_request(memoryview(encode(message, VERSION)), 0) is None, change
    of_consumer = message_of((-1, *usual[1:]))  # type: ignore[arg-type]
    assert read_request(memoryview(encode(of_consumer, VERSION)), 0) is None


def test_responses_of_other_shapes_are_left_to_the_codec() -> None:
    usual: list[FetchedSlice] = [(TOPICS[0], 1, 2, 3, 4, b"records")]
    for change in (
        {"error_code": 1},
        {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=1)},
        {"aborted_transactions": [AbortedTransaction(producer_id=1, first_offset=1)]},
        {"preferred_read_replica": 1},
        {"records": None},
    ):
        message = as_message(7, usual)
        for name, value in change.items():
            setattr(message.responses[0].partitions[0], name, value)
        assert read_response(memoryview(encode(message, VERSION)), 0) is None, change
    refused = FetchResponse(error_code=70)
    assert read_response(memoryview(encode(refused, VERSION)), 0) is None


@pytest.mark.parametrize("seed", range(300))
def test_damaged_bytes_are_never_read_otherwise_than_by_the_codec(seed: int) -> None:
    random = Random(seed)
    for body, is_request in (
        (bytearray(pack_request(a_request(random))), True),
        (bytearray(b"".join(pack_response(7, some_slices(random)))), False),  # type: ignore[arg-type]
    ):
        for _ in range(random.randrange(1, 4)):
            body[random.randrange(len(body))] ^= 1 << random.randrange(8)
        if random.random() < 0.3:
            del body[random.randrange(len(body)) :]
        frame = memoryview(body)
        try:
            read = read_request(frame, 0) if is_request else read_response(frame, 0)
        except (IndexError, struct.error):
            continue
        except MalformedMessage:
            assert not is_request
            with pytest.raises(MalformedMessage):
                decode(FetchResponse, frame, VERSION)
            continue
        if read is None:
            continue
        try:
            message, end = decode(FetchRequest if is_request else FetchResponse, frame, VERSION)
        except MalformedMessage as error:
            pytest.fail(f"the codec refuses it: {error}")
        assert end == len(frame)
        if isinstance(message, FetchRequest):
            assert isinstance(read, tuple)
            assert message == message_of(read)
        else:
            assert isinstance(message, FetchResponse)
            assert not isinstance(read, tuple)
            assert [(piece.topic_id, piece.partition_index, piece.records or b"") for piece in read.slices] == [
                (topic.topic_id.bytes, data.partition_index, data.records)
                for topic in message.responses
                for data in topic.partitions
            ]
