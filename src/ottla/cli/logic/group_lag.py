"""Progress of a group in each partition: committed offset, end of the log, assigned member."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import DescribedGroup
from ottla.client.admin.offsets import LATEST
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["GroupRow", "group_rows"]


class GroupRow(NamedTuple):
    """One line of the table; None for an empty cell."""

    topic: str
    partition: int
    current: int | None
    leader_epoch: int | None
    end: int | None
    lag: int | None
    consumer: str | None
    host: str | None
    client: str | None


async def group_rows(admin: AdminClient, group: DescribedGroup) -> list[GroupRow]:
    """Every partition that is assigned or has a committed offset; members without one at the end."""
    committed = await admin.groups.offsets(group.group_id)
    owners = {partition: member for member in group.members for partition in member.assignment}
    partitions = sorted({*committed, *owners})
    ends = await admin.offsets.find(dict.fromkeys(partitions, LATEST))
    rows = []
    for partition in partitions:
        commit = committed.get(partition)
        latest = ends.get(partition)
        end = latest.offset if latest is not None and not isinstance(latest, KafkaError) else None
        current = commit.offset if commit is not None else None
        member = owners.get(TopicPartition(*partition))
        rows.append(
            GroupRow(
                partition.topic,
                partition.partition,
                current,
                commit.leader_epoch if commit is not None and commit.leader_epoch >= 0 else None,
                end,
                max(end - current, 0) if end is not None and current is not None else None,
                None if member is None else member.instance_id or member.member_id,
                None if member is None else member.host,
                None if member is None else member.client_id,
            )
        )
    return rows
