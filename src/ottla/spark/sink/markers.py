"""Which batches a query has written: offsets of a group, committed in the same transaction as the rows.

Task number p of a query commits `batch id + 1` for partition p of a topic that never has a record
(`__ottla_batches`), in a group with the query's name. Nothing else finds a few bytes by name as cheaply, changes them
together with records, and is understood by every Kafka. The offset's metadata names the life of the query (the id in
its checkpoint): a query that begins anew with an empty checkpoint counts from 0 again, and must not believe what
an earlier life of the same name has left.
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
    """What a task commits with its batch."""
    return CommittedOffset(batch_id + 1, metadata=query_id)


async def written_up_to(admin: AdminClient, *, group_id: str, marker: TopicPartition, query_id: str) -> int:
    """The first batch that the task has not written in this life of the query.

    Waits for transactions that are being ended: their outcome decides.
    """
    cluster = admin.connections
    found = await cluster.retry(lambda: admin.groups.offsets(group_id, [marker], stable=True))
    committed = found.get(marker)
    return 0 if committed is None or committed.metadata != query_id else committed.offset


async def ensure_partition(admin: AdminClient, marker: TopicPartition) -> None:
    """The markers' topic, with enough partitions for this task; made, and made larger, by whoever needs it first."""
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
        # It appears in a moment; until then this is asked again.
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{marker} is not there yet.")

    await cluster.retry(attempt)


def _allow(answer: object, code: ErrorCode) -> None:
    """Somebody else may have been faster."""
    if isinstance(answer, KafkaError) and answer.code != code:
        raise answer
