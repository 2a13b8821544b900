"""The record of a classic group, written and read: who was a member of which generation, and had what assigned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard, Replayer

__all__ = ["CLASSIC_REPLAYERS", "empty_group_record", "group_record"]


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> CoordinatorRecord:
    """The group as it is, with these assignments (by member id) instead of its own where given."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.phase_timestamp_ms,
        members=members,
    )
    return GroupMetadataKey(group=group.group_id), value


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """A group that has just been made and has no members yet that would count."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=group.phase_timestamp_ms,
        members=[],
    )
    return GroupMetadataKey(group=group.group_id), value


def _replay_group(
    shard: GroupShard, key: GroupMetadataKey, value: GroupMetadataValue | None, _producer_id: int
) -> None:
    if value is None:
        if isinstance(shard.groups.get(key.group), ClassicGroup):
            del shard.groups[key.group]
        return
    group = ClassicGroup(key.group, shard, now_ms=value.current_state_timestamp)
    group.generation = value.generation
    group.protocol_name = value.protocol
    for stored in value.members:
        # Older records have no timeout for rebalances: it was the session timeout then.
        has_own_timeout = stored.rebalance_timeout != -1
        group.add(
            ClassicMember(
                member_id=stored.member_id,
                instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=stored.rebalance_timeout if has_own_timeout else stored.session_timeout,
                session_timeout_ms=stored.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", bytes(stored.subscription)),),
                assignment=bytes(stored.assignment),
            )
        )
    group.protocol_type_or_none = value.protocol_type or None
    group.leader_id = value.leader
    group.phase = Phase.STABLE if value.members else Phase.EMPTY
    group.subscribed_topics = group.compute_subscribed_topics()
    shard.groups[key.group] = group


CLASSIC_REPLAYERS: Mapping[int, Replayer] = {GroupMetadataKey.API_KEY: _replay_group}
