"""Commits at an earlier epoch of the member (KIP-1251).

A commit that arrives after the member has moved to a new epoch is valid for every partition that the member has had
since the epoch of the commit: no other member has had it in between. So a rebalance of other partitions fails no
commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.group import ConsumerGroup, stale_epoch

if TYPE_CHECKING:
    from ottla.wire.messages.offset_commit import OffsetCommitRequestTopic
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic

__all__ = ["check_late_commit"]


def check_late_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    topics: Iterable[OffsetCommitRequestTopic] | Iterable[TxnOffsetCommitRequestTopic],
) -> None:
    """Raises unless the member has had every partition since that epoch. Topics have names here."""
    member = group.members.get(member_id)
    if member is None or epoch >= member.member_epoch:
        return
    by_name = group.shard.context.image.topics.by_name
    for topic in topics:
        topic_image = by_name.get(topic.name)
        for partition in topic.partitions:
            index = partition.partition_index
            assigned_at = None if topic_image is None else member.assignment_epoch(topic_image.topic_id, index)
            if assigned_at is None:
                raise stale_epoch(member, f"The member does not have {topic.name}-{index}.")
            if epoch < assigned_at:
                raise stale_epoch(
                    member,
                    f"The commit is of epoch {epoch}; the member has {topic.name}-{index} since epoch {assigned_at}.",
                )
