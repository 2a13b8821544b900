"""Fetches of records that are not in the page cache: workers read the disk, never the loop's thread."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ottla.broker.apis import fetch
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ports import FileRegion
from ottla.records.control import build_end_transaction_marker
from ottla.records.iterate import iterate_batches
from ottla.replica import cold_reads, giant_fetch
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.cold_disk import ColdDisk
from tests.support.data_path import DataPath, batch, unpacked

AT_ONCE, IN_SLICES = "at once", "in slices"
BATCHES = 60


class SlicedDataPath(DataPath):
    """A data path that treats every fetch as a giant fetch."""

    def call(self, handler: Any, request: Any, version: int) -> Any:
        if handler is not fetch:
            return super().call(handler, request, version)
        answer = fetch.handler.handle_in_slices(request, self.context(request.API_KEY, version), self.broker)
        self.virtual.scheduler.run()
        read = answer.then(partial(unpacked, version=version))
        return read.result() if read.done else read


@pytest.fixture(params=[AT_ONCE, IN_SLICES])
def node(request: Any, log_directory: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataPath]:
    if request.param == IN_SLICES:
        monkeypatch.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 0)
        monkeypatch.setattr(giant_fetch, "PARTITIONS_PER_SLICE", 5)
    path = (SlicedDataPath if request.param == IN_SLICES else DataPath)(log_directory)
    yield path
    path.stop()


@pytest.fixture
def disk(node: DataPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[ColdDisk]:
    disk = ColdDisk(node.virtual.workers, monkeypatch)
    yield disk
    disk.is_watched, disk.error = False, None


def fill(node: DataPath, partitions: int = 1) -> None:
    """Batches in several segments, among them aborted transactions. Then the node restarts, and remembers none."""
    node.create_topic("t", partitions, internal_segment_bytes="4000", index_interval_bytes="150")
    options: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "is_transactional": True}
    now_ms = node.virtual.clock.ms
    for index in range(partitions):
        partition = node.partition("t", index)
        for number in range(BATCHES):
            if number % 10 == 0:
                aborted = bytearray(batch("bad", base_sequence=number // 10, **options))
                partition.append_built(aborted, now_ms=now_ms)
                marker = build_end_transaction_marker(
                    is_commit=False, coordinator_epoch=0, producer_id=5, producer_epoch=0, timestamp_ms=1
                )
                partition.append_built(marker, now_ms=now_ms)
            node.append("t", "x" * (50 + number), index=index)
    restart(node)


def restart(node: DataPath) -> None:
    node.settle()
    node.stop()
    node.start()


def partition_rows(response: object) -> list[tuple[object, ...]]:
    """All fields of the partitions in a response."""
    assert isinstance(response, FetchResponse)
    return [
        (
            data.partition_index,
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.aborted_transactions,
            place_of(data.records),
        )
        for topic in response.responses
        for data in topic.partitions
    ]


def place_of(records: Any) -> tuple[str, int, int] | None:
    return (records.file.path, records.position, records.length) if records else None


def waiting(response: object) -> Deferred[FetchResponse]:
    assert isinstance(response, Deferred)
    assert not response.done
    return response


def finished(node: DataPath, response: FetchResponse | Deferred[FetchResponse]) -> FetchResponse:
    if isinstance(response, FetchResponse):
        return response
    node.settle()
    return response.result()


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_result_is_the_same_and_only_workers_read(node: DataPath, disk: ColdDisk, isolation_level: int) -> None:
    fill(node)
    end = node.partition("t").log.log_end_offset
    limits = [{}, {"partition_max_bytes": 1}, {"partition_max_bytes": 700}, {"max_bytes": 2_000}]
    for offset in range(0, end, 7):
        for limit in limits:
            restart(node)
            options = {"isolation_level": isolation_level, **limit}
            expected = partition_rows(node.fetch("t", {0: offset}, **options))
            restart(node)
            disk.empty()
            assert partition_rows(finished(node, waiting(node.fetch("t", {0: offset}, **options)))) == expected
            assert disk.loop_reads == []
            assert partition_rows(node.fetch("t", {0: offset}, **options)) == expected, "now it is in memory"
            disk.is_watched = False


def test_a_consumer_reads_everything(node: DataPath, disk: ColdDisk) -> None:
    fill(node)
    disk.empty()
    offset, end = 0, node.partition("t").log.log_end_offset
    size = 0
    while offset < end:
        data = finished(node, node.fetch("t", {0: offset}, partition_max_bytes=900)).responses[0].partitions[0]
        assert isinstance(data.records, FileRegion)
        size += len(data.records)
        offset = next_offset(data.records)
    assert disk.loop_reads == []
    assert size == node.partition("t").log.size_bytes


def next_offset(region: FileRegion) -> int:
    end = 0
    for log_batch in iterate_batches(
        memoryview(bytearray(os.pread(region.file.fileno(), region.length, region.position)))
    ):
        end = log_batch.header.next_offset
    return end


def test_the_log_end_is_read_without_the_disk(node: DataPath, disk: ColdDisk) -> None:
    node.create_topic("t")
    node.append("t", "a")
    disk.empty()
    assert [row[5] for row in partition_rows(node.fetch("t", {0: 0}))] == [
        (node.partition("t").log.segments.active.path, 0, 69)
    ]


def test_other_partitions_are_in_the_same_response(node: DataPath, disk: ColdDisk) -> None:
    fill(node, 3)
    expected = partition_rows(node.fetch("t", {0: 3, 1: 20, 2: 40}, max_bytes=6_000))
    restart(node)
    disk.empty()
    finished(node, node.fetch("t", {1: 20}))
    assert partition_rows(finished(node, waiting(node.fetch("t", {0: 3, 1: 20, 2: 40}, max_bytes=6_000)))) == expected
    assert disk.loop_reads == []


def test_more_partitions_than_are_read_at_the_same_time(
    node: DataPath, disk: ColdDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(node, 5)
    offsets = dict.fromkeys(range(5), 30)
    expected = partition_rows(node.fetch("t", offsets))
    restart(node)
    disk.empty()
    monkeypatch.setattr(cold_reads, "REGIONS_MAX", 2)
    answer = waiting(node.fetch("t", offsets))
    assert len(node.virtual.workers.tasks) == 2
    assert partition_rows(finished(node, answer)) == expected
    assert disk.loop_reads == []


def test_a_slow_disk_does_not_hold_back_the_response_for_long(node: DataPath, disk: ColdDisk) -> None:
    fill(node)
    disk.empty()
    answer = waiting(node.fetch("t", {0: 0}, max_wait_ms=100))
    node.virtual.scheduler.advance(100)
    assert not answer.done
    node.virtual.scheduler.advance(cold_reads.DISK_WAIT_MS_MAX - 1)
    assert not answer.done
    node.virtual.scheduler.advance(1)
    assert [(row[1], row[5]) for row in partition_rows(answer.result())] == [(ErrorCode.NONE, None)]
    assert node.replicas.parking.parked == 0
    assert node.replicas.parking.timeouts == 1
    node.settle()


def test_a_fetch_whose_time_is_over_leaves_as_soon_as_the_disk_was_read(node: DataPath, disk: ColdDisk) -> None:
    fill(node)
    disk.empty()
    answer = waiting(node.fetch("t", {0: 0}, max_wait_ms=100, min_bytes=1 << 20))
    node.virtual.scheduler.advance(200)
    node.settle()
    assert partition_rows(answer.result())[0][5]
    assert node.replicas.parking.parked == 0


def test_a_fetch_with_too_few_bytes_waits_on_when_the_disk_was_read(node: DataPath, disk: ColdDisk) -> None:
    node.create_topic("t", index_interval_bytes="1")
    for _ in range(3):
        node.append("t", "x" * 100)
    restart(node)
    disk.empty()
    answer = waiting(node.fetch("t", {0: 0}, max_wait_ms=100, min_bytes=1 << 20))
    node.settle()
    assert not answer.done
    node.virtual.scheduler.advance(100)
    assert partition_rows(finished(node, answer))[0][5]
    assert disk.loop_reads == []


def test_a_lost_leadership_is_told_at_once(node: DataPath, disk: ColdDisk) -> None:
    topic_id = node.create_topic("t", replicas=(1, 2), index_interval_bytes="1")
    for _ in range(80):
        node.append("t", "x" * 100)
    node.partition("t").on_follower_fetch(2, fetch_offset=80, log_start_offset=0, now_ms=1)
    disk.empty()
    answer = waiting(node.fetch("t", {0: 0}, max_wait_ms=100, version=10))
    node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
    node.virtual.scheduler.run()
    assert partition_rows(answer.result())[0][1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.settle()


def test_records_that_are_deleted_meanwhile(node: DataPath, disk: ColdDisk) -> None:
    fill(node)
    disk.empty()
    answer = waiting(node.fetch("t", {0: 0}))
    log = node.partition("t").log
    log.advance_log_start_offset(50)
    log.delete_segments([segment for segment in log.segments if segment.base_offset < 30])
    assert partition_rows(finished(node, answer))[0][1] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_records_that_are_truncated_meanwhile(node: DataPath, disk: ColdDisk) -> None:
    fill(node)
    disk.empty()
    answer = waiting(node.fetch("t", {0: 40}))
    disk.is_watched = False
    node.partition("t").log.truncate_to(20)
    assert partition_rows(finished(node, answer))[0][1] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_with_too_many_parked_requests_the_response_leaves_without_the_records(node: DataPath, disk: ColdDisk) -> None:
    fill(node)
    disk.empty()
    node.replicas.parking.parked_max = 0
    for _ in range(cold_reads.ROUNDS_MAX):
        answer = node.fetch("t", {0: 0}, max_wait_ms=100)
        # A giant fetch is parked from the beginning.
        assert isinstance(answer, FetchResponse) or isinstance(node, SlicedDataPath)
        node.settle()
        records = partition_rows(finished(node, answer))[0][5]
        if records:
            break
    assert records
    assert disk.loop_reads == []


def test_an_error_of_the_disk_is_told(node: DataPath, disk: ColdDisk) -> None:
    fill(node)
    node.create_topic("u")
    node.append("u", "in memory")
    disk.empty()
    topics = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)]) for name in "ut"
    ]
    answer = waiting(node.call(fetch, FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics), 12))
    disk.error = OSError(errno.EIO, "no such sector")
    assert partition_rows(finished(node, answer))[1][1] == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_file_that_was_truncated_by_another_program_is_told(node: DataPath, disk: ColdDisk) -> None:
    fill(node)
    disk.empty()
    os.truncate(node.partition("t").log.segments[0].path, 0)
    answer = waiting(node.fetch("t", {0: 0}))
    assert partition_rows(finished(node, answer))[0][1] != ErrorCode.NONE


def test_pages_that_are_gone_at_once_are_read_in_the_end(node: DataPath, disk: ColdDisk) -> None:
    fill(node, 2)
    disk.empty()
    disk.keeps_nothing = True
    answer = waiting(node.fetch("t", {0: 0, 1: 0}))
    first, second = partition_rows(finished(node, answer))
    assert first[5]
    assert not second[5]
    assert disk.loop_reads
