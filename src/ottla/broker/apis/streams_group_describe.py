"""StreamsGroupDescribe (key 89), version 0: state, topology and members of streams groups (KIP-1071).

Streams groups are not there yet: the answer is that of a cluster whose `streams.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    request: StreamsGroupDescribeRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> StreamsGroupDescribeResponse:
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def error_response(
    request: StreamsGroupDescribeRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]
    )
