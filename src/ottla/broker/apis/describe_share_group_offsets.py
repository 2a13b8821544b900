"""DescribeShareGroupOffsets (key 90), versions 0 to 1: where share groups begin (KIP-932).

- 1: how far behind they are (KIP-1226)

Share groups are not there yet: the answer is that of a cluster whose `share.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]


def handle(
    request: DescribeShareGroupOffsetsRequest,
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> DescribeShareGroupOffsetsResponse:
    code = ErrorCode.UNSUPPORTED_VERSION
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups
        ]
    )
