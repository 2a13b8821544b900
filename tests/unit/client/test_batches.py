"""`ottla.records` and the consumer decode the producer's batches to the same records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.decode import decode_batch
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.queue import PartitionQueue
from ottla.client.producer.sequences import ProducerIdentity
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.iterate import iterate_batches, iterate_records, verify_checksum
from ottla.records.record import Record

ONE = TopicPartition("t", 3)

Given = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]

contents = st.none() | st.binary(max_size=200) | st.just(bytes(9_000))
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
records = st.lists(st.tuples(contents, contents, headers, st.integers(-1, 2**40)), min_size=1, max_size=20)


def new_batch(limit: int = 1 << 20, codec: Codec = Codec.NONE, created: float = 0.0) -> ProducerBatch:
    async def make() -> ProducerBatch:
        done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        return ProducerBatch(ONE, limit=limit, codec=codec, level=None, created=created, done=done)

    return asyncio.run(make())


@settings(max_examples=40)
@given(given_records=records, codec=st.sampled_from(list(Codec)))
def test_round_trip(
    given_records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]], codec: Codec
) -> None:
    batch = new_batch(codec=codec)
    for number, (key, value, record_headers, timestamp) in enumerate(given_records):
        assert batch.append(key, value, record_headers, timestamp) == number
    batch.producer_id, batch.epoch, batch.base_sequence = 7, 1, 5
    encoded = batch.encode(is_transactional=True)
    (read,) = iterate_batches(encoded)
    assert verify_checksum(read.view, read.header)
    assert (read.header.producer_id, read.header.base_sequence, read.header.is_transactional) == (7, 5, True)
    assert read.header.max_timestamp == max(timestamp for *_, timestamp in given_records)
    read_records = list(iterate_records(read))
    decoded = decode_batch(ONE, read.header, read.view)
    for number, (key, value, record_headers, timestamp) in enumerate(given_records):
        for record in (read_records[number], decoded[number]):
            assert (record.key, record.value, list(record.headers)) == (key, value, record_headers)
            assert (record.offset, record.timestamp) == (number, timestamp)
    assert len(read_records) == len(decoded) == len(given_records)
    assert [record.offset for record in decode_batch(ONE, read.header, read.view, from_offset=2)] == [
        record.offset for record in decoded if record.offset >= 2
    ]


def test_the_time_of_the_log_counts_where_the_topic_says_so() -> None:
    data = build_batch(
        [Record(value=b"a", timestamp=5), Record(value=b"b", timestamp=6)], base_offset=40, append_time_ms=99
    )
    (read,) = iterate_batches(data)
    decoded = decode_batch(ONE, read.header, read.view)
    assert [(record.offset, record.timestamp, record.timestamp_type) for record in decoded] == [
        (40, 99, 1),
        (41, 99, 1),
    ]


def test_a_batch_takes_its_first_record_whatever_its_size() -> None:
    batch = new_batch(limit=100)
    assert batch.has_room(10_000)
    batch.append(None, bytes(10_000), (), 1)
    assert not batch.has_room(1)


def test_what_comes_back_finds_its_place() -> None:
    queue = PartitionQueue()
    batches = []
    for number in range(4):
        batch = new_batch(created=float(number))
        batch.base_sequence = number * 10
        batches.append(batch)
    queue.closed.append(batches[3])
    queue.put_back(batches[1])
    queue.put_back(batches[0])
    queue.put_back(batches[2])
    assert list(queue.closed) == batches
    assert queue.retrying


def test_sequence_numbers_wrap_and_restart_with_an_epoch() -> None:
    identity = ProducerIdentity()
    identity.set(5, 0)
    assert [identity.take(ONE, 3), identity.take(ONE, 2), identity.take(TopicPartition("t", 4), 1)] == [0, 3, 0]
    identity.set(5, 1)
    assert identity.take(ONE, 2**31 - 1) == 0
    assert identity.take(ONE, 3) == 2**31 - 1
    assert identity.take(ONE, 1) == 2


def test_a_refused_record_leaves_no_timestamp_in_its_batch() -> None:
    batch = new_batch()
    batch.append(None, b"1", (), 5)
    text: Any = "not bytes"
    with pytest.raises(TypeError):
        batch.append(None, text, (), 9)
    assert (batch.count, batch.max_timestamp) == (1, 5)
