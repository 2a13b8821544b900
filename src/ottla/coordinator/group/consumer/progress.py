"""The steps of one decision about a member of either protocol, which collect records (see `heartbeat`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.reconcile import Owned, reconcile
from ottla.coordinator.group.consumer.records import (
    current_assignment_record,
    epoch_record,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    target_record,
)
from ottla.coordinator.group.consumer.sessions import (
    cancel_progress_timers,
    expect_revocation,
    forget_revocation,
)
from ottla.coordinator.group.consumer.states import MemberState
from ottla.coordinator.group.consumer.subscription import (
    is_metadata_stale,
    metadata_hash,
    subscribed_ids,
    topics_of_members,
)
from ottla.coordinator.group.consumer.target import TargetOfMember, update_target
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.model.ids import Uuid

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["GroupProgress", "reconcile_member", "replace_member"]

logger = logging.getLogger("ottla.coordinator.group.consumer")


class GroupProgress:
    """A group within one decision: `member` before it, `updated` after it."""

    __slots__ = (
        "epoch",
        "group",
        "has_subscription_changed",
        "member",
        "now_ms",
        "records",
        "shard",
        "updated",
    )

    def __init__(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        records: list[CoordinatorRecord],
        now_ms: int,
    ) -> None:
        self.shard = shard
        self.group = group
        self.member = member
        self.updated = updated
        self.records = records
        self.now_ms = now_ms
        self.epoch = group.epoch
        self.has_subscription_changed = member.subscribed_topics != updated.subscribed_topics

    def members(self) -> dict[str, ConsumerMember]:
        """The members after the records are replayed: a static member may replace its former self."""
        members = dict(self.group.members)
        replaced = self.group.static_member(self.updated.instance_id)
        if replaced is not None:
            del members[replaced.member_id]
        members[self.updated.member_id] = self.updated
        return members

    def write_member(self) -> None:
        if self.updated != self.member:
            self.records.append(member_record(self.group.group_id, self.updated))

    def update_epoch(self, *, has_regex_changed: bool) -> None:
        """A changed subscription, or a change of the subscribed topics, begins a new epoch."""
        group, context = self.group, self.shard.context
        must_bump = self.has_subscription_changed or has_regex_changed
        if not must_bump and not is_metadata_stale(group, context.image):
            return
        topics = topics_of_members(self.members().values(), group.resolved_regexes)
        new_hash = metadata_hash(topics, context)
        if must_bump or new_hash != group.metadata_hash:
            self.epoch += 1
            self.records.append(epoch_record(group.group_id, self.epoch, new_hash))
            logger.info("group %s is at epoch %d", group.group_id, self.epoch)
            if group.has_partition_metadata_record:
                self.records.append(partition_metadata_tombstone(group.group_id))
        group.note_metadata(context.image, self.epoch)

    def update_target(self) -> TargetOfMember:
        return update_target(
            self.group,
            group_epoch=self.epoch,
            members=self.members,
            member=self.updated,
            context=self.shard.context,
            now_ms=self.now_ms,
            records=self.records,
        )


def reconcile_member(
    progress: GroupProgress, target: TargetOfMember, *, owned: Owned, has_subscription_changed: bool
) -> ConsumerMember:
    """Takes the member one step towards its target; starts or stops the timer for its revocation."""
    updated, group, shard = progress.updated, progress.group, progress.shard
    if not has_subscription_changed and updated.is_reconciled_to(target.epoch):
        return updated
    # A static member under a new id may take the partitions of its former self.
    old_id = group.static_members.get(updated.instance_id or "")

    def is_free(topic_id: Uuid, partition: int) -> bool:
        owner = group.owner_of(topic_id, partition)
        return owner is None or (owner == old_id and owner != updated.member_id)

    reconciled = reconcile(
        updated,
        target_epoch=target.epoch,
        target=target.target,
        owned=owned,
        subscribed_topic_ids=subscribed_ids(updated, group.resolved_regexes, shard.context.image),
        has_subscription_changed=has_subscription_changed,
        is_free=is_free,
    )
    if reconciled != updated:
        progress.records.append(current_assignment_record(group.group_id, reconciled))
        if not reconciled.uses_classic_protocol:
            if reconciled.state is MemberState.UNREVOKED_PARTITIONS:
                expect_revocation(shard, group.group_id, reconciled)
            else:
                forget_revocation(shard, group.group_id, reconciled.member_id)
    return reconciled


def replace_member(
    group: ConsumerGroup, old: ConsumerMember, new_id: str, records: list[CoordinatorRecord]
) -> ConsumerMember:
    """The same static member under a new id, with its assignment and target."""
    group_id = group.group_id
    cancel_progress_timers(group.shard, group_id, old.member_id)
    new = old._replace(member_id=new_id, member_epoch=0, previous_epoch=0)
    records += member_tombstones(group_id, old.member_id)
    records.append(member_record(group_id, new))
    records.append(target_record(group_id, new_id, group.target_of(old.member_id, old.instance_id)))
    records.append(current_assignment_record(group_id, new))
    return new
