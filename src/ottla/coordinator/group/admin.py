"""Administration of groups: list, describe, delete."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.offsets.removal import all_offset_tombstones
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.coordinator.runtime.hashing import table_order
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_delete", "describe_classic", "list_groups"]

FIRST_VERSION_WITH_NOT_FOUND = 6


def list_groups(shard: GroupShard, group_ids: list[str], *, states: Set[str], types: Set[str]) -> list[ListedGroup]:
    """The filters are in lower case; an empty filter matches everything.

    The order is Apache Kafka's, so that short lists of both can be compared.
    """
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.TYPE.value,
        )
        for group_id in sorted(group_ids, key=table_order)
        if (group := shard.groups.get(group_id)) is not None
        and (not states or group.state_name.lower() in states)
        and (not types or group.TYPE.value in types)
    ]


def describe_classic(shard: GroupShard, group_id: str, api_version: int) -> DescribedGroup:
    """A group that is unknown or of another kind is Dead; from version 6 on it is also an error (KIP-1043)."""
    try:
        group = shard.group_of_kind(group_id, ClassicGroup)
    except KafkaError as error:
        described = DescribedGroup(group_id=group_id, group_state=Phase.DEAD.value)
        if api_version >= FIRST_VERSION_WITH_NOT_FOUND:
            described.error_code = error.code
            described.error_message = error.message
        return described
    # Metadata belongs to a protocol, and only a stable group has chosen its protocol.
    protocol = group.protocol_name if group.phase is Phase.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol),
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def decide_delete(shard: GroupShard, group_id: str) -> Decision[DeletableGroupResult]:
    """Deletes a group without members, and its offsets."""
    result = DeletableGroupResult(group_id=group_id)
    records: list[CoordinatorRecord] = []
    try:
        group = shard.group(group_id)
        group.check_delete()
    except KafkaError as error:
        result.error_code = error.code
    else:
        records = [*all_offset_tombstones(shard, group_id), *group.tombstones()]
    assert result.error_code == ErrorCode.NONE or not records
    return Decision(records, result)
