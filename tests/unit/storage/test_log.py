"""Appending to a log and reading it back."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.iterate import iterate_batches
from tests.unit.storage.helpers import LogBench, batch, offsets_of, read_all, values_of


def test_appended_batches_are_read_back(bench: LogBench) -> None:
    assert bench.append(b"a", b"b")[:2] == (0, 1)
    assert bench.append(b"c")[:2] == (2, 2)
    assert values_of(bench.log) == [b"a", b"b", b"c"]
    assert offsets_of(bench.log) == [0, 1, 2]


def test_offsets_and_epoch_are_stamped_outside_the_checksum(bench: LogBench) -> None:
    bench.append(b"a")
    built = batch(b"b")
    sent = bytes(built)
    bench.append_bytes(built, leader_epoch=7)
    result = bench.log.read(1, max_bytes=1000, end_offset=2)
    assert result.region is not None
    stored = result.region.read()
    header = next(iterate_batches(stored)).header
    assert (header.base_offset, header.leader_epoch) == (1, 7)
    assert stored[16:] == sent[16:]


def test_a_read_stops_below_the_end_offset(bench: LogBench) -> None:
    for value in (b"a", b"b", b"c"):
        bench.append(value)
    result = bench.log.read(0, max_bytes=1000, end_offset=2)
    assert result.region is not None
    assert [read_batch.header.base_offset for read_batch in iterate_batches(result.region.read())] == [0, 1]
    assert bench.log.read(2, max_bytes=1000, end_offset=2).region is None
    assert bench.log.read(3, max_bytes=1000, end_offset=3).region is None


def test_the_first_batch_is_returned_however_large(bench: LogBench) -> None:
    bench.append(b"x" * 500)
    bench.append(b"y")
    result = bench.log.read(0, max_bytes=10, end_offset=2)
    assert result.region is not None
    assert len(list(iterate_batches(result.region.read()))) == 1
    assert bench.log.read(0, max_bytes=10, end_offset=2, at_least_one_batch=False).region is None


def test_the_places_of_the_latest_batches_only_are_remembered(bench: LogBench) -> None:
    for _ in range(300):
        bench.append(b"x")
    assert len(bench.log._tail.recent) <= 64
    assert offsets_of(bench.log) == list(range(300))


def test_an_offset_inside_a_batch_returns_the_whole_batch(bench: LogBench) -> None:
    bench.append(b"a", b"b", b"c")
    bench.append(b"d")
    result = bench.log.read(1, max_bytes=1000, end_offset=4)
    assert result.region is not None
    assert result.region.position == 0


@pytest.mark.parametrize("offset", [-1, 2])
def test_offsets_out_of_range_are_refused(bench: LogBench, offset: int) -> None:
    bench.append(b"a")
    with pytest.raises(KafkaError) as caught:
        bench.log.read(offset, max_bytes=1000, end_offset=1)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("max_bytes", [1, 100, 1000, 5000, 1 << 20])
@pytest.mark.parametrize("segment_bytes", [400, 3000, 1 << 20])
def test_every_offset_is_found_whatever_the_limits(max_bytes: int, segment_bytes: int) -> None:
    bench = LogBench(segment_bytes=segment_bytes, index_interval_bytes=200)
    for number in range(120):
        bench.append(*[b"v%d" % number] * (1 + number % 3))
    log = bench.log
    assert [record.offset for record in read_all(log, max_bytes=max_bytes)] == list(range(log.log_end_offset))
    for offset in range(log.log_end_offset):
        result = log.read(offset, max_bytes=max_bytes, end_offset=log.log_end_offset)
        assert result.region is not None
        first = next(iterate_batches(result.region.read())).header
        assert first.base_offset <= offset <= first.last_offset


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    bench = LogBench(segment_bytes=100)
    with pytest.raises(KafkaError) as caught:
        bench.append(b"x" * 200)
    assert caught.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert bench.log.log_end_offset == 0


@pytest.mark.parametrize("preallocates", ["true", "false"])
def test_a_follower_takes_a_batch_that_is_larger_than_a_segment(preallocates: str) -> None:
    """The leader has it since `segment.bytes` was larger (KAFKA-17375)."""
    bench = LogBench(segment_bytes=120, preallocate=preallocates)
    for offset, value in enumerate((b"a", b"b" * 300, b"c")):
        bench.log.append_as_follower(batch(value, base_offset=offset, leader_epoch=0))
    assert bench.bases() == [0, 1, 2]
    assert values_of(bench.restart(clean=False)) == [b"a", b"b" * 300, b"c"]


def test_a_follower_appends_what_the_leader_wrote(bench: LogBench) -> None:
    bench.log.append_as_follower(
        batch(b"a", b"b", base_offset=0, leader_epoch=3) + batch(b"c", base_offset=2, leader_epoch=4)
    )
    assert offsets_of(bench.log) == [0, 1, 2]
    assert [tuple(entry) for entry in bench.log.epochs.entries] == [(3, 0), (4, 2)]
    with pytest.raises(KafkaError):
        bench.log.append_as_follower(batch(b"d", base_offset=1))
    partial = batch(b"e", base_offset=3, leader_epoch=4)
    bench.log.append_as_follower(partial + partial[:30])
    assert offsets_of(bench.log) == [0, 1, 2, 3]
