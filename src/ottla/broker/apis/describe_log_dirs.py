"""DescribeLogDirs (key 35), versions 1 to 5: log directories, their replicas and sizes (KIP-113).

- 2: flexible
- 3: an error for the whole request
- 4: size and free space of the volume (KIP-827)
- 5: whether the directory is cordoned (KIP-1066)

Offline directories are listed with KAFKA_STORAGE_ERROR and without replicas.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.broker.long_answers import ENTRIES_PER_SLICE, answer_in_slices
from ottla.metadata.controller.brokers import CORDONED_DIRECTORIES_LEVEL
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.model.deferred import Deferred
    from ottla.storage.manager import DirectoryDescription
    from ottla.wire.packed import PackedResponse

__all__ = ["API"]

# Half a microsecond each.
NAMES_PER_SLICE = 10_000


def handle(
    request: DescribeLogDirsRequest, context: RequestContext, broker: Broker
) -> DescribeLogDirsResponse | Deferred[DescribeLogDirsResponse | PackedResponse]:
    if not context.would_allow(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return answer_in_slices(_describe(request.topics, broker), context, broker)


def _describe(
    topics: list[DescribableLogDirTopic] | None, broker: Broker
) -> Generator[None, None, DescribeLogDirsResponse]:
    wanted = None if topics is None else (yield from _present(topics, broker))
    cordoned: frozenset[str] = frozenset()
    if broker.metadata.image.features.metadata_version >= CORDONED_DIRECTORIES_LEVEL:
        cordoned = frozenset(broker.config.cordoned_log_dirs)
    response = DescribeLogDirsResponse()
    for described in (yield from broker.logs.describe(wanted, per_slice=ENTRIES_PER_SLICE)):
        response.results.append((yield from _result(described, cordoned)))
    return response


def _present(topics: list[DescribableLogDirTopic], broker: Broker) -> Generator[None, None, set[TopicPartition]]:
    """The named partitions of which this broker has a log."""
    present: set[TopicPartition] = set()
    named = 0
    for topic in topics:
        for index in topic.partitions:
            named += 1
            if named % NAMES_PER_SLICE == 0:
                yield
            topic_partition = TopicPartition(topic.topic, index)
            if broker.logs.get(topic_partition) is not None:
                present.add(topic_partition)
    return present


def _result(described: DirectoryDescription, cordoned: frozenset[str]) -> Generator[None, None, DescribeLogDirsResult]:
    if described.error is not None:
        return DescribeLogDirsResult(log_dir=described.path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for number, replica in enumerate(described.replicas, 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        name, index = replica.topic_partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = DescribeLogDirsTopic(name=name)
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=index,
                partition_size=replica.size_bytes,
                offset_lag=replica.offset_lag,
                is_future_key=replica.is_future,
            )
        )
    return DescribeLogDirsResult(
        log_dir=described.path,
        topics=list(topics.values()),
        total_bytes=described.total_bytes,
        usable_bytes=described.usable_bytes,
        is_cordoned=described.path in cordoned or "*" in cordoned,
    )


API = Api(
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    handle=handle,
    elements_max=100_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
