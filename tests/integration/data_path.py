"""Shared by the tests of the data path: separate topics on a common node, and explicit requests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from ottla.records.build import build_batch
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.record import Record
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw_client import RawClient

__all__ = ["batch", "create_topic", "fetch_request", "new_name", "produce_request", "values"]

_numbers = itertools.count()


def new_name(prefix: str = "topic") -> str:
    """A topic name that no other test of this run uses."""
    return f"{prefix}-{next(_numbers)}"


def create_topic(
    client: RawClient, *, partitions: int = 1, configs: Mapping[str, str] | None = None, name: str | None = None
) -> str:
    name = name or new_name()
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0]
    assert answer.error_code == 0, answer
    return name


def batch(*texts: str, timestamp: int = 1_700_000_000_000, **options: Any) -> bytearray:
    records = [Record(value=text.encode(), timestamp=timestamp + index) for index, text in enumerate(texts)]
    return build_batch(records, **options)


def produce_request(
    topic: str, records: Any, *, index: int = 0, acks: int = 1, timeout_ms: int = 5_000
) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])


def fetch_request(
    topic: str,
    offsets: Mapping[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=partitions)],
        **fields,
    )


def values(records: Any) -> list[str]:
    """The values in the records of a fetch answer."""
    if not records:
        return []
    return [
        str(bytes(record.value or b""), "utf-8")
        for record_batch in iterate_batches(memoryview(bytearray(records)))
        for record in iterate_records(record_batch)
    ]
