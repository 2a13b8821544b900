"""Groups of every kind in one shape: members, and progress in each partition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.client.admin import AdminClient
from ottla.client.admin.each import ask_each
from ottla.client.admin.groups import DescribedGroup, ListedGroup
from ottla.client.admin.offsets import LATEST, FoundOffset
from ottla.client.admin.share_groups import DescribedShareGroup
from ottla.client.admin.streams_groups import DescribedStreamsGroup
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["GroupDetail", "GroupProgress", "MemberDetail", "kind_of", "progress_of_groups", "read_group", "total_lag"]

KINDS = ("classic", "consumer", "share", "streams")


class MemberDetail(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class GroupDetail(NamedTuple):
    state: str
    assignor: str
    epoch: int | None
    coordinator: int
    members: tuple[MemberDetail, ...]


class GroupProgress(NamedTuple):
    partition: TopicPartition
    committed: int | None
    last_offset: int | None
    # None if unknown.
    lag: int | None


def kind_of(group: ListedGroup) -> str:
    """The kind of a group. Clusters before KIP-848 have classic groups only."""
    kind = group.type.lower()
    if kind in KINDS:
        return kind
    return group.protocol_type if group.protocol_type in ("share", "streams") else "classic"


async def read_group(admin: AdminClient, group_id: str, kind: str) -> GroupDetail:
    """Raises KafkaError."""
    if kind == "share":
        share = (await admin.share_groups.describe([group_id]))[group_id]
        if isinstance(share, KafkaError):
            raise share
        return _from_share(share)
    if kind == "streams":
        streams = (await admin.streams_groups.describe([group_id]))[group_id]
        if isinstance(streams, KafkaError):
            raise streams
        return _from_streams(streams)
    described = (await admin.groups.describe([group_id]))[group_id]
    if isinstance(described, KafkaError):
        raise described
    return _from_consumers(described)


async def progress_of_groups(
    admin: AdminClient, groups: Sequence[ListedGroup]
) -> dict[str, list[GroupProgress] | KafkaError]:
    """Group -> its progress, for groups of any kind. The end offsets of all partitions are read together."""
    kinds = {group.group_id: kind_of(group) for group in groups}
    coordinators = {group.group_id: group.coordinator for group in groups if kinds[group.group_id] != "share"}
    shares, committed = await asyncio.gather(
        ask_each([group_id for group_id, kind in kinds.items() if kind == "share"], admin.share_groups.offsets),
        admin.groups.offsets_at(coordinators),
    )
    # Group -> partition -> committed offset, and the lag if the cluster reports it.
    offsets_by_group: dict[str, dict[TopicPartition, tuple[int, int | None]] | KafkaError] = {}
    for group_id, offsets in committed.items():
        offsets_by_group[group_id] = (
            offsets
            if isinstance(offsets, KafkaError)
            else {partition: (commit.offset, None) for partition, commit in offsets.items()}
        )
    for group_id, share in shares.items():
        offsets_by_group[group_id] = (
            share
            if isinstance(share, KafkaError)
            else {
                partition: (position.offset, position.lag)
                for partition, position in share.items()
                if not isinstance(position, KafkaError)
            }
        )
    wanted = {
        partition: LATEST
        for offsets in offsets_by_group.values()
        if not isinstance(offsets, KafkaError)
        for partition in offsets
    }
    ends = await admin.offsets.find(wanted, timeout_ms=1_000) if wanted else {}
    return {
        group_id: offsets
        if isinstance(offsets, KafkaError)
        else [_progress(partition, *offsets[partition], ends.get(partition)) for partition in sorted(offsets)]
        for group_id, offsets in offsets_by_group.items()
    }


def total_lag(progress: Iterable[GroupProgress] | KafkaError | None) -> int | None:
    """The sum of the known lags; None if no lag is known."""
    if progress is None or isinstance(progress, KafkaError):
        return None
    lags = [row.lag for row in progress if row.lag is not None]
    return sum(lags) if lags else None


def _progress(
    partition: TopicPartition, committed: int, lag: int | None, end: FoundOffset | KafkaError | None
) -> GroupProgress:
    last = end.offset if isinstance(end, FoundOffset) else None
    if lag is None and last is not None and committed >= 0:
        lag = max(last - committed, 0)
    return GroupProgress(partition, committed if committed >= 0 else None, last, lag)


def _from_consumers(group: DescribedGroup) -> GroupDetail:
    members = tuple(
        MemberDetail(member.member_id, member.instance_id, member.client_id, member.host.lstrip("/"), member.assignment)
        for member in group.members
    )
    return GroupDetail(group.state, group.assignor, group.epoch, group.coordinator, members)


def _from_share(group: DescribedShareGroup) -> GroupDetail:
    members = tuple(
        MemberDetail(member.member_id, None, member.client_id, member.host.lstrip("/"), member.assignment)
        for member in group.members
    )
    return GroupDetail(group.state, group.assignor, group.epoch, group.coordinator, members)


def _from_streams(group: DescribedStreamsGroup) -> GroupDetail:
    sources = {subtopology.subtopology_id: subtopology.source_topics for subtopology in group.subtopologies}
    members = tuple(
        MemberDetail(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.host.lstrip("/"),
            tuple(
                TopicPartition(topic, task.partition)
                for task in member.assignment.active
                for topic in sources.get(task.subtopology, ())
            ),
        )
        for member in group.members
    )
    return GroupDetail(group.state, "", group.epoch, group.coordinator, members)
