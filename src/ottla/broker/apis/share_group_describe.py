"""ShareGroupDescribe (key 77), version 1: state and members of share groups (KIP-932).

Share groups are not there yet: the answer is that of a cluster whose `share.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    request: ShareGroupDescribeRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> ShareGroupDescribeResponse:
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def error_response(
    request: ShareGroupDescribeRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]
    )
