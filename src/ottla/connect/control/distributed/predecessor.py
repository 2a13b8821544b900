"""Removes the dead member of a worker that was killed and started again at the same address.

The new worker listens on that address, so the old member must be dead. Without its removal the group would wait for the
end of its session before any work is assigned. The new worker removes the old member while its own join is pending: a
group without members would start from scratch and wait for more members to come.

Correctness does not depend on this. If a living worker has the same address (two machines that are both called
localhost), it has to join again once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ottla.client.cluster import Cluster
from ottla.client.errors import check
from ottla.model.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

__all__ = ["dead_members", "remove_members"]


async def dead_members(cluster: Cluster, group_id: str, *, protocol: str, url: str) -> list[str]:
    """The members of a group at this worker's address. Called before the worker joins."""
    response = await cluster.ask_coordinator(
        cluster.GROUP,
        group_id,
        DescribeGroupsRequest(groups=[group_id]),
        lambda answer: [group.error_code for group in answer.groups],
    )
    group: DescribedGroup = response.groups[0]
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return []
    check(group.error_code, group.error_message)
    # During a rebalance the response has no metadata of members.
    if group.protocol_data != protocol:
        return []
    return [member.member_id for member in group.members if _url_of(bytes(member.member_metadata)) == url]


async def remove_members(cluster: Cluster, group_id: str, member_ids: Sequence[str]) -> None:
    members = [MemberIdentity(member_id=member_id, reason="another worker has its address") for member_id in member_ids]
    # Not on the connection where a JoinGroup waits: brokers answer in order.
    response = await cluster.ask_coordinator(
        cluster.GROUP, group_id, LeaveGroupRequest(group_id=group_id, members=members)
    )
    check(response.error_code)


def _url_of(metadata: bytes) -> str | None:
    try:
        content = json.loads(metadata)
    except ValueError:
        return None
    return content.get("url") if isinstance(content, dict) else None
