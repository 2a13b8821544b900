"""Markers of written batches: offsets of a group, committed in the same transaction as the rows.

Task p of a query commits `batch id + 1` for partition p of a topic without records (`__ottla_batches`), in a group with
the query's name. Committed offsets are cheap to look up, change atomically with records, and exist in every Kafka. The
metadata of the offset holds the query id of the checkpoint: a query with a new checkpoint counts batches from 0 again,
and must ignore markers of an earlier query of the same name.
"""

from __future__ import annotations

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.topics import NewTopic
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["ensure_partition", "marker_of", "written_up_to"]

_PARTITIONS_MIN = 16


def marker_of(batch_id: int, query_id: str) -> CommittedOffset:
    """The offset that a task commits with its batch."""
    return CommittedOffset(batch_id + 1, metadata=query_id)


async def written_up_to(
    admin: AdminClient, *, group_id: str, marker: TopicPartition, query_id: str, stable: bool = True
) -> int:
    """The first batch that the task has not written, for this query id.

    With `stable`, waits for completing transactions, because they may commit the marker.
    """
    cluster = admin.connections
    offsets = await cluster.retry(lambda: admin.groups.offsets(group_id, [marker], stable=stable))
    committed = offsets.get(marker)
    return 0 if committed is None or committed.metadata != query_id else committed.offset


async def ensure_partition(admin: AdminClient, marker: TopicPartition) -> None:
    """Creates the markers' topic, or adds partitions, if it has none for this task."""
    cluster = admin.connections
    info = cluster.metadata.topics.get(marker.topic)
    if info is not None and marker.partition in info.partitions:
        return
    wanted = max(_PARTITIONS_MIN, 1 << marker.partition.bit_length())

    async def attempt() -> None:
        await cluster.refresh([marker.topic])
        info = cluster.metadata.topics.get(marker.topic)
        if info is not None and marker.partition in info.partitions:
            return
        if info is None or info.error is not None:
            topic = NewTopic(name=marker.topic, partitions=wanted, configs={"cleanup.policy": "compact"})
            created = (await admin.topics.create([topic]))[marker.topic]
            _allow(created, ErrorCode.TOPIC_ALREADY_EXISTS)
        else:
            grown = (await admin.topics.grow({marker.topic: wanted}))[marker.topic]
            _allow(grown, ErrorCode.INVALID_PARTITIONS)
        # The new partition appears soon; the caller retries.
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{marker} does not exist yet.")

    await cluster.retry(attempt)


def _allow(answer: object, code: ErrorCode) -> None:
    """Ignores this error code: another task may have been faster."""
    if isinstance(answer, KafkaError) and answer.code != code:
        raise answer
