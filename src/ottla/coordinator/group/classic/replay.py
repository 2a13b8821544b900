"""The record of a classic group, written and replayed: a generation, its members and their assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard, Replayer

__all__ = ["CLASSIC_REPLAYERS", "empty_generation_record", "group_record", "new_group_record"]


def group_record(
    group: ClassicGroup,
    *,
    now_ms: int,
    members: Iterable[ClassicMember] | None = None,
    leader_id: str | None = None,
    assignments: Mapping[str, bytes] | None = None,
) -> CoordinatorRecord:
    """The record of the group, with other members, another leader or other assignments (by member id) if given."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id if leader_id is None else leader_id,
        current_state_timestamp=now_ms,
        members=[
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
            for member in (group.members.values() if members is None else members)
        ],
    )
    return GroupMetadataKey(group=group.group_id), value


def empty_generation_record(group: ClassicGroup, now_ms: int) -> CoordinatorRecord:
    """The next generation, which has no members."""
    return _empty_record(
        group.group_id, protocol_type=group.protocol_type, generation=group.generation + 1, now_ms=now_ms
    )


def new_group_record(group_id: str, now_ms: int) -> CoordinatorRecord:
    """A group that exists from now on, and that no member has joined yet."""
    return _empty_record(group_id, protocol_type="", generation=0, now_ms=now_ms)


def _empty_record(group_id: str, *, protocol_type: str, generation: int, now_ms: int) -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=now_ms,
        members=[],
    )
    return GroupMetadataKey(group=group_id), value


def _replay_group(
    shard: GroupShard, key: GroupMetadataKey, value: GroupMetadataValue | None, _producer_id: int
) -> None:
    existing = shard.groups.get(key.group)
    if value is None:
        if isinstance(existing, ClassicGroup):
            shard.drop_group(key.group)
        return
    members = [_stored_member(value, stored) for stored in value.members]
    if shard.is_loaded and isinstance(existing, ClassicGroup):
        existing.store(value, members)
        return
    group = ClassicGroup.of_generation(
        key.group,
        shard,
        generation=value.generation,
        protocol_type=value.protocol_type,
        protocol_name=value.protocol,
        leader_id=value.leader,
        members=members,
        now_ms=value.current_state_timestamp,
    )
    shard.put_group(group)


def _stored_member(value: GroupMetadataValue, stored: MemberMetadata) -> ClassicMember:
    # Older records have no timeout for rebalances: it was the session timeout then.
    has_own_timeout = stored.rebalance_timeout != -1
    return ClassicMember(
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


CLASSIC_REPLAYERS: Mapping[int, Replayer] = {GroupMetadataKey.API_KEY: _replay_group}
