"""Compares the replicas of a partition: offset, size and checksum of every batch that all replicas have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, error_of
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords
from ottla.records.iterate import iterate_batches, verify_checksum
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

__all__ = ["ReplicaReport", "compare_batches", "compare_partition"]

# (base offset, last offset, size, checksum)
BatchMark = tuple[int, int, int, int]


class ReplicaReport(NamedTuple):
    partition: TopicPartition
    replicas: tuple[int, ...]
    compared: int
    max_lag: int
    # A sentence about the first difference; None if the replicas are equal.
    difference: str | None


async def compare_partition(
    cluster: Cluster, partition: TopicPartition, replicas: Sequence[int], *, fetch_size: int
) -> ReplicaReport:
    """Compares from the first offset that all replicas have to the smallest current high watermark."""
    live = tuple(broker for broker in replicas if broker in cluster.metadata.brokers)
    missing = [broker for broker in replicas if broker not in live]
    if missing:
        return ReplicaReport(partition, tuple(replicas), 0, 0, f"broker {missing[0]} is not there")
    compared = 0
    offset = 0
    lag = 0
    while True:
        answers = await asyncio.gather(*[_fetch(cluster, broker, partition, offset, fetch_size) for broker in live])
        for broker, answer in zip(live, answers, strict=True):
            if isinstance(answer, str):
                return ReplicaReport(partition, live, compared, lag, f"broker {broker}: {answer}")
        batches = [answer for answer in answers if not isinstance(answer, str)]
        start = max(data.log_start_offset for data in batches)
        if offset < start:
            offset = start
            continue
        end = min(data.high_watermark for data in batches)
        lag = max(data.high_watermark for data in batches) - end
        if offset >= end:
            return ReplicaReport(partition, live, compared, lag, None)
        try:
            marks = {broker: _marks(data, end) for broker, data in zip(live, batches, strict=True)}
        except CorruptRecords as error:
            return ReplicaReport(partition, live, compared, lag, str(error))
        common, difference = compare_batches(marks)
        if difference is not None:
            return ReplicaReport(partition, live, compared, lag, difference)
        if not common:
            return ReplicaReport(partition, live, compared, lag, f"nothing can be read at offset {offset}")
        compared += len(common)
        offset = common[-1][1] + 1


def compare_batches(marks: dict[int, list[BatchMark]]) -> tuple[list[BatchMark], str | None]:
    """The common prefix of all replicas, and the first difference in it."""
    length = min(len(replica_marks) for replica_marks in marks.values())
    first, *other_replicas = marks
    for position in range(length):
        expected = marks[first][position]
        for broker in other_replicas:
            if marks[broker][position] != expected:
                return [], f"brokers {first} and {broker} differ at offset {expected[0]}"
    return marks[first][:length], None


def _marks(data: PartitionData, end: int) -> list[BatchMark]:
    marks = []
    for batch in iterate_batches(data.records or b""):  # type: ignore[arg-type]
        header = batch.header
        if header.base_offset >= end:
            break
        if not verify_checksum(batch.view, header):
            raise CorruptRecords(f"the batch at offset {header.base_offset} has a wrong checksum")
        marks.append((header.base_offset, header.last_offset, header.size, header.crc))
    return marks


async def _fetch(
    cluster: Cluster, broker: int, partition: TopicPartition, offset: int, fetch_size: int
) -> PartitionData | str:
    info = cluster.metadata.topics[partition.topic]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=fetch_size,
        topics=[
            FetchTopic(
                topic=partition.topic,
                topic_id=info.topic_id,
                partitions=[
                    FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=fetch_size)
                ],
            )
        ],
    )
    try:
        response: FetchResponse = await cluster.ask_node(broker, request)
    except ClientError as error:
        return str(error)
    if response.error_code or not response.responses:
        return str(error_of(response.error_code) or "no answer")
    data = response.responses[0].partitions[0]
    refused = error_of(data.error_code)
    if refused is not None and refused.code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > offset:
        return await _fetch(cluster, broker, partition, data.log_start_offset, fetch_size)
    return data if refused is None else refused.message
