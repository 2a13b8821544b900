"""ConsumerGroupDescribe (key 69), versions 0 to 1: state and members of groups of the consumer protocol (KIP-848).

- 1: whether a member uses the classic or the consumer protocol (KIP-1099)

A group with a member that reads a topic which the client may not describe is answered with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.consumer_protocol import is_consumer_protocol_enabled
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

_HIDDEN = "Members of the group read topics that may not be shown to you."


def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext, broker: Broker
) -> ConsumerGroupDescribeResponse | Deferred[ConsumerGroupDescribeResponse]:
    if not is_consumer_protocol_enabled(broker):
        return error_response(request, context.api_version, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    allowed: list[str] = []
    forbidden: list[DescribedGroup] = []
    for group_id in request.group_ids:
        if context.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            forbidden.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))

    def respond(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        described = [_visible(group, context) for group in groups]
        if request.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = context.authorizer.authorized_operations(
                        context, ResourceType.GROUP, group.group_id
                    )
        return ConsumerGroupDescribeResponse(groups=[*forbidden, *described])

    return broker.groups.describe_consumer_groups(allowed).then(respond)


def error_response(
    request: ConsumerGroupDescribeRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> ConsumerGroupDescribeResponse:
    groups = [DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


def _visible(group: DescribedGroup, context: RequestContext) -> DescribedGroup:
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if all(context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return group
    return DescribedGroup(
        group_id=group.group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=_HIDDEN
    )


API = Api(
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("group_ids",), response=("groups",), size=50, is_heavy=True),),
)
