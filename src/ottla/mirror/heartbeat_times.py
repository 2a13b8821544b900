"""When a heartbeat of each flow arrived last: old heartbeats mean that a mirror has stopped or fallen behind."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.mirror.messages import Heartbeat, MalformedMessage
from ottla.mirror.names import HEARTBEATS_TOPIC
from ottla.model.ids import TopicPartition

__all__ = ["HEARTBEAT_READER", "find_heartbeats", "is_heartbeats_topic", "newest_heartbeats"]

# The newest heartbeats of a partition that are read: a flow writes a heartbeat a second, and flows share the topic.
NEWEST = 200
POLL_MS = 1_000
ANSWER_MS_MAX = 2_000

HEARTBEAT_READER = ConsumerSettings(
    auto_commit=False, auto_offset_reset="none", read_committed=True, allow_auto_create=False
)


def is_heartbeats_topic(name: str) -> bool:
    """The topic of heartbeats that flows from this cluster write, or a copy from another cluster."""
    return name == HEARTBEATS_TOPIC or name.endswith(f".{HEARTBEATS_TOPIC}")


async def find_heartbeats(admin: AdminClient) -> dict[tuple[str, str], int]:
    """Source and target of every flow with heartbeats in the cluster -> the time of the newest heartbeat, in ms."""
    partitions = [
        TopicPartition(name, number)
        for name, topic in (await admin.topics.all()).items()
        if is_heartbeats_topic(name)
        for number in topic.partitions
    ]
    if not partitions:
        return {}
    async with Consumer(admin.connections, HEARTBEAT_READER) as consumer:
        return await newest_heartbeats(admin, consumer, partitions)


async def newest_heartbeats(
    admin: AdminClient, consumer: Consumer, partitions: Iterable[TopicPartition]
) -> dict[tuple[str, str], int]:
    """Like `find_heartbeats`, in these partitions."""
    wanted = list(partitions)
    first = await admin.offsets.find(dict.fromkeys(wanted, EARLIEST), timeout_ms=ANSWER_MS_MAX)
    last = await admin.offsets.find(dict.fromkeys(wanted, LATEST), timeout_ms=ANSWER_MS_MAX)
    begins: dict[TopicPartition, int] = {}
    left: dict[TopicPartition, int] = {}
    for partition in wanted:
        begin, end = first[partition], last[partition]
        if isinstance(begin, FoundOffset) and isinstance(end, FoundOffset) and begin.offset < end.offset:
            begins[partition], left[partition] = max(begin.offset, end.offset - NEWEST), end.offset
    newest: dict[tuple[str, str], int] = {}
    await consumer.assign(sorted(begins))
    for partition, offset in begins.items():
        consumer.seek(partition, offset)
    while left:
        records = await consumer.poll(POLL_MS)
        for record in records:
            try:
                beat = Heartbeat.decode(record.key or b"", record.value or b"")
            except MalformedMessage:
                continue
            flow = (beat.source, beat.target)
            newest[flow] = max(newest.get(flow, 0), beat.timestamp_ms)
        left = {partition: end for partition, end in left.items() if consumer.position(partition) < end}
        if not records:
            break
    return newest
