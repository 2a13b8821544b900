"""Control records, and headers of every kind."""

from __future__ import annotations

import pytest
from aiokafka.record.memory_records import MemoryRecords

from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.control import (
    ControlType,
    build_control_batch,
    build_end_transaction_marker,
    control_key,
    read_control_type,
    read_end_transaction_marker,
)
from ottla.records.errors import CorruptRecords
from ottla.records.header import read_header
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.record import Record


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_transaction_marker(is_commit: bool) -> None:
    batch = build_end_transaction_marker(
        is_commit=is_commit,
        coordinator_epoch=17,
        producer_id=1000,
        producer_epoch=3,
        timestamp_ms=55,
        base_offset=12,
        leader_epoch=2,
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1000, 3, -1)
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.max_timestamp) == (12, 12, 2, 55)
    [record] = iterate_records(next(iterate_batches(batch)))
    assert read_end_transaction_marker(record) == (is_commit, 17)
    theirs = MemoryRecords(bytes(batch)).next_batch()
    assert theirs is not None
    assert theirs.is_control_batch
    assert next(iter(theirs)).key == (b"\x00\x00\x00\x01" if is_commit else b"\x00\x00\x00\x00")


def test_markers_have_the_size_kafka_gives_them() -> None:
    batch = build_end_transaction_marker(
        is_commit=True, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp_ms=0
    )
    assert len(batch) == 78


def test_other_control_records() -> None:
    batch = build_control_batch([(ControlType.LEADER_CHANGE, b"body")], timestamp_ms=1, leader_epoch=4)
    header = read_header(batch)
    assert header.is_control
    assert not header.is_transactional
    [record] = iterate_records(next(iterate_batches(batch)))
    assert read_control_type(record.key) == ControlType.LEADER_CHANGE
    assert read_end_transaction_marker(record) is None
    assert read_control_type(b"\x00\x00\x00\x63") == ControlType.UNKNOWN


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_keys_that_are_none(key: bytes | None) -> None:
    with pytest.raises(CorruptRecords):
        read_control_type(key)


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00"])
def test_markers_that_are_none(value: bytes | None) -> None:
    with pytest.raises(CorruptRecords):
        read_end_transaction_marker(Record(key=control_key(ControlType.ABORT), value=value))


def test_last_sequence_wraps() -> None:
    header = read_header(build_batch([Record(value=b"1"), Record(value=b"2")], producer_id=1, base_sequence=2**31 - 1))
    assert header.last_sequence == 0
    assert read_header(build_batch([Record(value=b"1")])).last_sequence == -1


def test_header_says_what_its_attributes_say() -> None:
    header = read_header(build_batch([Record(value=b"1")], codec=Codec.LZ4, is_transactional=True, append_time_ms=9))
    assert header.codec == Codec.LZ4
    assert header.is_compressed
    assert header.is_transactional
    assert header.uses_append_time
    assert not header.is_control
    assert header.delete_horizon_ms is None
    assert "base_offset=0" in repr(header)
