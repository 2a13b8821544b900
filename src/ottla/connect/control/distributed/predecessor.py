"""A worker that was killed and is back: its group still has a member at the same address, which cannot be alive.

Its listener has that address now, so whoever had it before is gone. Without a word of it the group would wait for the
dead member until its session ends, and all work with it. The new worker tells the group instead, once it waits in the
group itself: a group that is left by its last member begins anew and waits for others to come.

Nothing depends on this. If somebody else lives at that address after all (two machines that both call themselves
localhost), they are asked to join again, once.
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
    """The members of a group that say to be at our own address; asked before we are one of them."""
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
    # While a group is being divided it does not tell what its members said.
    if group.protocol_data != protocol:
        return []
    return [member.member_id for member in group.members if _url_of(bytes(member.member_metadata)) == url]


async def remove_members(cluster: Cluster, group_id: str, member_ids: Sequence[str]) -> None:
    members = [MemberIdentity(member_id=each, reason="another worker has its address") for each in member_ids]
    # Not over the connection on which a join waits for its answer: brokers answer in order.
    response = await cluster.ask_coordinator(
        cluster.GROUP, group_id, LeaveGroupRequest(group_id=group_id, members=members)
    )
    check(response.error_code)


def _url_of(metadata: bytes) -> str | None:
    try:
        found = json.loads(metadata)
    except ValueError:
        return None
    return found.get("url") if isinstance(found, dict) else None
